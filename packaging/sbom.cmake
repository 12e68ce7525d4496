# SPDX-License-Identifier: Apache-2.0
# anynet.spdx.json, the software bill of materials (SPDX 2.3): what the plugin and the tool are linked
# with, what they open at run time, and what they are built with (packages.txt). Sets sbom.

set(sbom ${CMAKE_CURRENT_BINARY_DIR}/anynet.spdx.json)
set(sbom_packages "")
set(sbom_relations "")

# sbom_package(NAME VERSION LICENSE FILE RELATION): RELATION is that of NAME to anynet.
function(sbom_package name version license file relation)
	string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id ${name})
	set(file_line "")
	if(file)
		set(file_line "\n\t\t\t\"packageFileName\": \"${file}\",")
	endif()
	string(APPEND sbom_packages ",
		{
			\"SPDXID\": \"SPDXRef-${id}\",
			\"name\": \"${name}\",
			\"versionInfo\": \"${version}\",${file_line}
			\"downloadLocation\": \"NOASSERTION\",
			\"filesAnalyzed\": false,
			\"licenseConcluded\": \"NOASSERTION\",
			\"licenseDeclared\": \"${license}\",
			\"copyrightText\": \"NOASSERTION\"
		}")
	string(APPEND sbom_relations ",
		{
			\"spdxElementId\": \"SPDXRef-${id}\",
			\"relationshipType\": \"${relation}\",
			\"relatedSpdxElement\": \"SPDXRef-anynet\"
		}")
	set(sbom_packages "${sbom_packages}" PARENT_SCOPE)
	set(sbom_relations "${sbom_relations}" PARENT_SCOPE)
endfunction()

# Linked: tests/package compares these with what the two files need.
set(glibc libc.so.6)
if(ANYNET_GLIBC)
	list(APPEND glibc libdl.so.2 libpthread.so.0)
	set(glibc_version ${ANYNET_GLIBC})
else()
	set(glibc_version NOASSERTION)
endif()
if(ANYNET_TOOLS)
	list(APPEND glibc libm.so.6)
	if(ANYNET_STATIC)
		set(file_jansson "")
		set(file_pcre2 "")
	else()
		set(file_jansson libjansson.so.4)
		set(file_pcre2 libpcre2-8.so.0)
	endif()
	sbom_package(jansson ${JANSSON_VERSION} MIT "${file_jansson}" DEPENDENCY_OF)
	sbom_package(pcre2 ${PCRE2_VERSION} BSD-3-Clause "${file_pcre2}" DEPENDENCY_OF)
endif()
foreach(file ${glibc})
	sbom_package(glibc-${file} ${glibc_version} LGPL-2.1-or-later ${file} DEPENDENCY_OF)
endforeach()
# Opened by name at run time, where there is something to do with them.
sbom_package(libibverbs NOASSERTION "GPL-2.0-only OR Linux-OpenIB" libibverbs.so.1 OPTIONAL_DEPENDENCY_OF)
sbom_package(librdmacm NOASSERTION "GPL-2.0-only OR Linux-OpenIB" librdmacm.so.1 OPTIONAL_DEPENDENCY_OF)
sbom_package(libcuda NOASSERTION NOASSERTION libcuda.so.1 OPTIONAL_DEPENDENCY_OF)
sbom_package(libnvidia-ml NOASSERTION NOASSERTION libnvidia-ml.so.1 OPTIONAL_DEPENDENCY_OF)
sbom_package(libcrypto NOASSERTION Apache-2.0 libcrypto.so.3 OPTIONAL_DEPENDENCY_OF)

set(section "")
file(STRINGS ${PROJECT_SOURCE_DIR}/packages.txt lines)
foreach(line ${lines})
	if(line MATCHES "^#")
		continue()
	elseif(line MATCHES "^\\[(.*)\\]$")
		set(section ${CMAKE_MATCH_1})
	elseif(section STREQUAL "build")
		sbom_package(${line} NOASSERTION NOASSERTION "" BUILD_DEPENDENCY_OF)
	endif()
endforeach()

# The document's name is its own for each content.
string(UUID sbom_uuid NAMESPACE 6ba7b811-9dad-11d1-80b4-00c04fd430c8 TYPE SHA1
	NAME "${PROJECT_VERSION} ${epoch} ${sbom_packages}")
set(before "$ENV{SOURCE_DATE_EPOCH}")
set(ENV{SOURCE_DATE_EPOCH} ${epoch})
string(TIMESTAMP sbom_created "%Y-%m-%dT%H:%M:%SZ" UTC)
set(ENV{SOURCE_DATE_EPOCH} "${before}")
configure_file(anynet.spdx.json.in ${sbom} @ONLY)
