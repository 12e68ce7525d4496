#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the real NCCL for a host without a GPU: NVIDIA's source as Debian ships it, linked with a CUDA
# runtime in software (runtime.sh), its device code replaced by ours for the CPU (device.mk). What NCCL does
# on the host - the topology, the search for a net plugin, the proxies that drive it - is NVIDIA's code.
#
# Usage: tests/nccl/prepare.sh [--offline [--tests]]
#
# Prints the directory that libnccl.so.2, libcudart.so.13, libcuda.so.1 and libnvidia-ml.so.1 are in. The first time it
# downloads 1.3 MB and compiles for two minutes on 2 cores. --offline: download nothing. Where something is
# missing it prints "SKIP" with the reason and exits with 77. Needs no root. Without --offline it also fetches the
# source of NVIDIA's nccl-tests beside it, for the test nccl.tests. --tests: print the directory of that source.
#
# ANYNET_NCCL_CACHE   where it is kept, 30 MB (default $XDG_CACHE_HOME/anynet-nccl, or
#                     ~/.cache/anynet-nccl)
# ANYNET_NCCL_SOURCE  an archive of the source (NCCL v2.29.7) instead of Debian's
# ANYNET_NCCL_TESTS   a source tree of nccl-tests (2.19.6) instead of NVIDIA's repository
# CUDA_HOME           where the headers of CUDA 13 are (default /usr/local/cuda)
set -euo pipefail
gpus=$(cd "$(dirname "$0")/../fakes/nccl" && pwd)
cache=${ANYNET_NCCL_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/anynet-nccl}
cuda=${CUDA_HOME:-/usr/local/cuda}
version=2.29.7
# Of Debian's source package; our kernels are written against this version's headers.
package=nvidia-nccl=$version-1-1
checksum=e67239212c395bfdb398a7519491840d06fdf6b599c299f97c7ed0109777bba1
# The commit "NCCL_TESTS_VERSION 2.19.6": git checks what it receives against this hash.
tests_version=2.19.6
tests_commit=a0b82b2260cf5152b9f8c061bbf7eaf0ba096432
tests_repository=https://github.com/NVIDIA/nccl-tests
offline=''

give_up() {
	echo "SKIP nccl: $*"
	exit 77
}

need_tools() {
	local tool major
	for tool in g++ make python3; do
		command -v $tool >/dev/null || give_up "no $tool here"
	done
	[ -f "$cuda/include/cuda_runtime.h" ] || give_up "no headers of CUDA in $cuda (CUDA_HOME)"
	major=$(awk '$2 == "CUDA_VERSION" { print int($3 / 1000) }' "$cuda/include/cuda.h")
	[ "$major" = 13 ] || give_up "the headers in $cuda are of CUDA $major, 13 is wanted"
}

# Debian unstable, from the mirror of this host; apt's own lists are not changed.
download() {
	local apt=$1/apt uri
	command -v apt-get >/dev/null || give_up "no apt-get to download the source with (ANYNET_NCCL_SOURCE)"
	# shellcheck disable=SC2016 # apt's
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		awk '/\/debian\/?$/ && !found { found = $0 } END { print found }')
	[ -n "$uri" ] || give_up "apt has no Debian archive here (ANYNET_NCCL_SOURCE names the source)"
	mkdir -p "$apt/lists/partial" "$apt/parts"
	echo "deb-src $uri sid contrib" >"$apt/sources.list"
	local get=(apt-get -qq -o "Dir::State::Lists=$apt/lists" -o "Dir::Etc::SourceList=$apt/sources.list"
		-o "Dir::Etc::SourceParts=$apt/parts" -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache=
		-o APT::Sandbox::User=root)
	(cd "$apt" && "${get[@]}" update && "${get[@]}" --download-only --tar-only source "$package") \
		>"$apt/log" 2>&1 || {
		cat "$apt/log" >&2
		give_up "apt-get cannot download $package (ANYNET_NCCL_SOURCE names the source)"
	}
	mv "$apt"/*.orig.tar.gz "$1/source.tar.gz"
	echo "$checksum  $1/source.tar.gz" | sha256sum --check --quiet >&2 ||
		give_up "the downloaded source is not that of NCCL $version"
}

# Built in a separate directory first, so that an interrupted build leaves nothing incomplete.
unpack() {
	local new=${cache:?}/source.new found
	[ ! -e "$cache/source" ] || return 0
	rm -rf "$new"
	mkdir -p "$new"
	if [ -n "${ANYNET_NCCL_SOURCE:-}" ]; then
		cp "$ANYNET_NCCL_SOURCE" "$new/source.tar.gz"
	else
		download "$new"
	fi
	tar -C "$new" --strip-components=1 -xf "$new/source.tar.gz"
	found=$(awk -F '[ :=]+' '/^NCCL_(MAJOR|MINOR|PATCH)/ { printf "%s%s", dot, $2; dot = "." }' \
		"$new/makefiles/version.mk")
	[ "$found" = $version ] || give_up "the source is not that of NCCL $version"
	# No debug information and no dependency files: the source does not change.
	sed -i 's/-O3 -g$/-O1/' "$new/makefiles/common.mk"
	# shellcheck disable=SC2016 # make's
	sed -i '/^\t@$(CXX) .* -M $< >/d; /^\t@sed .*d\.tmp/d; /^ *sed -e .*fmt/d; /sed -e .*\$\$\/:/d; /^\t@rm -f .*d\.tmp/d' \
		"$new/src/Makefile"
	mv "$new" "$cache/source"
}

# Only the test nccl.tests needs it, and it prints what is missing.
fetch_tests() {
	local new=${cache:?}/nccl-tests.new into=$cache/nccl-tests-$tests_version
	[ -z "${ANYNET_NCCL_TESTS:-}" ] && [ ! -e "$into" ] || return 0
	rm -rf "$new"
	if git init -q "$new" && GIT_TERMINAL_PROMPT=0 timeout 120 git -C "$new" fetch -q --depth 1 "$tests_repository" \
		"$tests_commit" && git -C "$new" -c advice.detachedHead=false checkout -q "$tests_commit"; then
		mv "$new" "$into"
	else
		echo "nccl: cannot fetch nccl-tests from $tests_repository (ANYNET_NCCL_TESTS names a source tree)"
	fi >&2
}

compile() {
	rm -rf "${cache:?}/lib"
	cp "$gpus/device.mk" "$cache/source/src/device/Makefile"
	"$gpus/runtime.sh" "$cuda/include" "$cache/lib" &&
		make -C "$cache/source/src" -j "${JOBS:-$(nproc)}" lib BUILDDIR="$cache/build" \
			SOFTGPU="$gpus" CUDARTLIB=cudart CUDA_LIB="$cache/lib" CUDA_INC="$cuda/include" \
			CUDA_MAJOR=13 CUDA_MINOR=0 &&
		cp -L "$cache/build/lib/libnccl.so.2" "$cache/lib/"
}

# The parts of this project that it contains.
mark() {
	cat "$gpus"/*.c "$gpus"/*.cc "$gpus"/*.h "$gpus"/*.hh "$gpus"/*.map "$gpus/runtime.sh" \
		"$gpus/device.mk" | sha256sum | cut -d ' ' -f 1
}

tests=''
case $* in
--offline) offline=yes ;;
'--offline --tests') offline=yes tests=${ANYNET_NCCL_TESTS:-$cache/nccl-tests-$tests_version} ;;
'') ;;
*)
	sed -n '/^# Usage/,/^$/s/^# //p' "$0" >&2
	exit 2
	;;
esac
[ "$(uname -m)" = x86_64 ] || give_up "it is for x86-64, this host is $(uname -m)"
if [ "$(cat "$cache/lib/mark" 2>/dev/null)" != "$(mark)" ]; then
	[ -z "$offline" ] || give_up "it is not built, or not from these files; 'make nccl' does it"
	need_tools
	echo "nccl: building NCCL $version in $cache" >&2
	mkdir -p "$cache"
	unpack
	compile >"$cache/build.log" 2>&1 || {
		tail -30 "$cache/build.log" >&2
		echo "nccl: the build failed: $cache/build.log" >&2
		exit 1
	}
	mark >"$cache/lib/mark"
fi
[ -n "$offline" ] || fetch_tests
if [ -n "$tests" ]; then
	[ -d "$tests" ] || give_up "no source of nccl-tests in $tests ('make nccl' fetches it, ANYNET_NCCL_TESTS names it)"
	command -v mpirun >/dev/null || give_up "no mpirun (packages.txt, [nccl-tests])"
fi
echo "${tests:-$cache/lib}"
