# SPDX-License-Identifier: Apache-2.0
# What is built on a newer system runs on an older one: ANYNET_GLIBC names the oldest glibc. Everything is linked with
# stubs of glibc's libraries that have only the symbol versions up to that one, made of the libraries of this system
# (stub.awk); what glibc has renamed since is in compat.c. A function that is newer is an error of the linker.

set(ANYNET_GLIBC "" CACHE STRING "Oldest glibc to run with, for example 2.28; empty: that of this system")

# anynet_glibc_floor(TARGET): a library or executable with that floor.
function(anynet_glibc_floor target)
	if(NOT ANYNET_GLIBC)
		return()
	endif()
	get_target_property(type ${target} TYPE)
	target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/glibc/compat.c)
	target_link_options(${target} PRIVATE -L${ANYNET_GLIBC_STUBS}
		# Other libraries may need what is not in the stubs.
		-Wl,--allow-shlib-undefined)
	if(type STREQUAL "EXECUTABLE")
		target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/glibc/start.c)
		target_link_options(${target} PRIVATE -Wl,--wrap=__libc_start_main)
	endif()
	# Before 2.34 threads and dlopen are in libraries of their own.
	target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed -lpthread -ldl -Wl,--pop-state)
endfunction()

if(NOT ANYNET_GLIBC)
	return()
endif()

set(ANYNET_GLIBC_STUBS ${PROJECT_BINARY_DIR}/glibc)
find_program(ANYNET_AWK awk REQUIRED)
mark_as_advanced(ANYNET_AWK)

# library_file(NAME RESULT): the compiler's library of that name. stub(NAME): ANYNET_GLIBC_STUBS/NAME, made of it.
function(library_file name result)
	execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${name}
		OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
	set(${result} ${file} PARENT_SCOPE)
endfunction()

function(stub name)
	library_file(${name} file)
	set(out ${ANYNET_GLIBC_STUBS}/${name})
	execute_process(COMMAND ${CMAKE_READELF} --dyn-syms -W ${file} COMMAND sort -k2,2
		OUTPUT_FILE ${out}.symbols COMMAND_ERROR_IS_FATAL ANY)
	execute_process(COMMAND ${ANYNET_AWK} -v floor=${ANYNET_GLIBC} -v map=${out}.map
			-f ${PROJECT_SOURCE_DIR}/packaging/glibc/stub.awk ${out}.symbols
		OUTPUT_FILE ${out}.s COMMAND_ERROR_IS_FATAL ANY)
	execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name}
			-Wl,--version-script=${out}.map -o ${out} ${out}.s COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(NOT EXISTS ${ANYNET_GLIBC_STUBS}/done-${ANYNET_GLIBC})
	file(REMOVE_RECURSE ${ANYNET_GLIBC_STUBS})
	file(MAKE_DIRECTORY ${ANYNET_GLIBC_STUBS})
	library_file(libc.so.6 libc)
	execute_process(COMMAND ${CMAKE_READELF} -dW ${libc} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
	string(REGEX MATCH "ld-linux[^]]*" loader "${dynamic}")
	foreach(name libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 ${loader})
		stub(${name})
	endforeach()
	set(dir ${ANYNET_GLIBC_STUBS})
	file(WRITE ${dir}/libc.so "GROUP(${dir}/libc.so.6 libc_nonshared.a AS_NEEDED(${dir}/${loader}))\n")
	file(WRITE ${dir}/libm.so "INPUT(${dir}/libm.so.6)\n")
	file(WRITE ${dir}/libpthread.so "INPUT(${dir}/libpthread.so.0)\n")
	file(WRITE ${dir}/libdl.so "INPUT(${dir}/libdl.so.2)\n")
	file(TOUCH ${dir}/done-${ANYNET_GLIBC})
endif()
