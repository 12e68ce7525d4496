#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The packages: package.sh CASE BUILD_DIR SOURCE_DIR CPACK FLOOR. Exit 77 = skipped.
#   contents  what is in them, bill of materials, glibc floor; the .rpm holds what the .deb holds
#   deb, rpm  installed, used, upgraded and removed in a copy of this system that nothing leaves
#   clean     the same of the .deb in a Debian that debootstrap has made, by apt, with what it depends on;
#             downloads that, so by request only: ANYNET_DEBOOTSTRAP=1
#   old       the .deb and a part of the suite in the oldest Debian that can be had, as `clean`
#   source    cmake, cmake --build, cmake --install in a Debian that has the [build] packages only, as `clean`
#   unit      the systemd unit, and the tool's command in it
#   service   the unit, by a systemd of its own in such a copy: what it may, and what it sees
#   image     packaging/Dockerfile, its lines carried out in such a copy
set -euo pipefail
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
case=${1:?} build=${2:?} source=${3:?} cpack=${4:?} floor=${5?}
packaged=$build/plugin/packaged/libnccl-net.so

fail() {
	echo "FAIL: $* (line ${BASH_LINENO[1]} of $0)"
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

# pack KIND DIR [OPTION...]: packages what is built (with Ninja as generator cpack does not run make's targets first)
pack() {
	(cd "$build" && "$cpack" -G "$1" -B "$2" -D CPACK_CMAKE_GENERATOR=Ninja "${@:3}") >"$2.log" 2>&1 || {
		cat "$2.log"
		fail "cpack -G $1"
	}
}

# --- contents ---

# The highest GLIBC version that a file requires.
glibc_of() {
	readelf -VW "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1 | sed s/GLIBC_//
}

check_floor() {
	local file page wants
	[ -n "$floor" ] || skip "built for the glibc of this system"
	for page in README.md docs/install.md; do
		grep -qF "glibc $floor" "$source/$page" || fail "$page does not name glibc $floor"
	done
	for file in "$packaged" "$build/tools/anynet"; do
		wants=$(glibc_of "$file")
		[ "$(printf '%s\n' "$wants" "$floor" | sort -V | tail -1)" != "$floor" ] || continue
		fail "$file wants glibc $wants, more than $floor"
	done
}

# The bill of materials lists exactly the libraries that both files are linked with.
check_sbom() {
	local sbom=$1 needed listed
	jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0" and .SPDXID == "SPDXRef-DOCUMENT"
		and (.documentNamespace | startswith("urn:uuid:"))
		and (.creationInfo.created | test("^[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z$"))
		and ([.packages[].SPDXID] | length == (unique | length))
		and ([.packages[] | .name and .versionInfo and .downloadLocation] | all)
		and ([.packages[].SPDXID] + ["SPDXRef-DOCUMENT"]) as $known
		| [.relationships[] | [.spdxElementId, .relatedSpdxElement] - $known == []] | all' \
		"$sbom" >"$work/jq" || fail "$sbom is no SPDX document: $(cat "$work/jq")"
	[ "$(jq -r '.packages[] | select(.name == "anynet").versionInfo' "$sbom")" = \
		"$("$build/tools/anynet" version | sed 's/^anynet \([^,]*\),.*/\1/')" ] || fail "$sbom: another version"
	needed=$(readelf -dW "$packaged" "$build/tools/anynet" |
		sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-' | sort -u)
	listed=$(jq -r '[.relationships[] | select(.relationshipType == "DEPENDENCY_OF").spdxElementId] as $linked
		| .packages[] | select(.SPDXID | IN($linked[])).packageFileName // empty' "$sbom" | sort -u)
	diff <(echo "$needed") <(echo "$listed") || fail "$sbom: linked are other libraries"
	diff <(awk '/^\[/ { inside = $1 == "[build]"; next } inside && NF' "$source/packages.txt" | sort) \
		<(jq -r '[.relationships[] | select(.relationshipType == "BUILD_DEPENDENCY_OF").spdxElementId] as $built
		| .packages[] | select(.SPDXID | IN($built[])).name' "$sbom" | sort) ||
		fail "$sbom: packages.txt says otherwise"
}

# list_deb FILE, list_rpm FILE: mode, size, name and target of files, except for the loader's directory
list_deb() {
	dpkg-deb --fsys-tarfile "$1" | tar -tvf - | awk '$1 !~ /^d/ { print $1, $3, $6, $8 }' |
		sed -E 's|^(l.*) 0 |\1 |; s| \./| /|; s|/lib/[^/ ]*-linux-gnu[^/ ]*/|/LOADER/|; s|\.\./anynet|ANYNET|; s| $||' | sort -k3
}

list_rpm() {
	rpm -qp --qf '[%{FILEMODES:perms} %{FILESIZES} %{FILENAMES} %{FILELINKTOS}\n]' "$1" 2>/dev/null |
		awk '$1 !~ /^d/' |
		sed -E 's|^(l[^ ]*) [0-9]+ |\1 |; s|/lib64/|/LOADER/|; s|\.\./lib/anynet|ANYNET|; s| $||' | sort -k3
}

contents() {
	local deb rpm name
	command -v dpkg-deb >/dev/null || skip "no dpkg-deb"
	# Not compressed, which would take most of the time.
	pack DEB "$work/deb" -D CPACK_DEBIAN_COMPRESSION_TYPE=none
	check_floor
	for deb in "$work"/deb/*.deb; do
		name=$(dpkg-deb -f "$deb" Package)
		mkdir "$work/$name"
		dpkg-deb -x "$deb" "$work/$name"
		[ "$name" = anynet-dev ] || grep -qF "./${name}_$(dpkg-deb -f "$deb" Version)_" "$source/docs/install.md" ||
			fail "docs/install.md: there is no ${deb##*/}"
		check_sbom "$work/$name/usr/share/doc/$name/anynet.spdx.json"
		[[ $(dpkg-deb -f "$deb" Maintainer) == *?" <"?*@?*">" ]] || fail "$name: nobody answers for it"
		find "$work/$name" ! -type l -perm /022 | grep . && fail "$name: others may write"
	done
	cmp "$work/anynet-nccl-net/usr/lib/anynet/libnccl-net.so" "$packaged"
	cmp "$work/anynet-tools/usr/bin/anynet" "$build/tools/anynet"
	find "$work/anynet-nccl-net" -name libnccl-net.so | grep -v /usr/lib/anynet/ &&
		fail "a file in the place of other vendors' plugins"
	command -v rpmbuild >/dev/null || skip "no rpmbuild: the .deb is as it should be, an .rpm was not made"
	echo '%_binary_payload w.ufdio' >"$work/.rpmmacros"
	HOME=$work pack RPM "$work/rpm"
	for deb in "$work"/deb/*.deb; do
		name=$(dpkg-deb -f "$deb" Package)
		rpm=$(echo "$work/rpm/$name"-[0-9]*.rpm)
		diff <(list_deb "$deb") <(list_rpm "$rpm") || fail "$name: .deb and .rpm differ"
		[ "$(rpm -qp --qf '[%{FILEMTIMES}\n]' "$rpm" 2>/dev/null | sort -u | wc -l)" = 1 ] ||
			fail "$name: its files are of several moments"
	done
	rpm -qp --requires "$work"/rpm/anynet-nccl-net-*.rpm 2>/dev/null |
		grep "(GLIBC_$(glibc_of "$packaged"))" >/dev/null || fail "the plugin's .rpm does not want its glibc"
}

# --- a copy of this system, with all changes in $upper ---

# Runs this script again with its own mounts, network and processes.
apart() {
	[ "$(id -u)" = 0 ] || skip "needs root, for an overlay of this system"
	unshare --mount --net --pid --fork true 2>/dev/null || skip "no mount or network namespaces here"
	# TMPDIR of the environment may not exist in the new root.
	PACKAGE_APART=1 TMPDIR=/tmp exec unshare --mount --net --pid --fork --kill-child \
		"$0" "$case" "$build" "$source" "$cpack" "$floor"
}

enter() {
	mount -t tmpfs -o mode=755 anynet-package "$work" || skip "no tmpfs"
	mkdir "$upper" "$work/work" "$root"
	mount -t overlay anynet-package -o "lowerdir=/,upperdir=$upper,workdir=$work/work" "$root" \
		2>/dev/null || skip "no overlay of this system's root"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	for dir in /run /tmp /dev/shm; do
		mount -t tmpfs tmpfs "$root$dir"
	done
	mkdir -p "$root$build"
	mount --bind "$build" "$root$build"
	ip link set lo up
	# Saves minutes of syncing and of indexing manuals, which are not tested.
	[ ! -d "$root/etc/dpkg/dpkg.cfg.d" ] ||
		echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/anynet-package"
	rm -f "$root/var/lib/man-db/auto-update"
}

# inside COMMAND...: in the copy, with a fresh environment
inside() {
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
		NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp "$@"
}

# quietly COMMAND...: prints its output only if it fails
quietly() {
	"$@" >"$work/log" 2>&1 </dev/null || {
		cat "$work/log"
		fail "$*"
	}
}

# leads FILE: libnccl-net.so in the loader's directory leads to this file
leads() {
	local found
	found=$(inside readlink -f "$loader/libnccl-net.so" || :)
	[ "$found" = "$1" ] || fail "libnccl-net.so leads to '$found' instead of '$1'"
}

# A checked all-reduce with the plugin that the library search path has by that name.
works() {
	quietly inside anynet perf -b 64 -e 64K -f 1024 -n 2 -w 1 ${1:+--net "$1"}
	grep -qF 'Out of bounds values : 0 OK' "$work/log" || fail "anynet perf: not verified"
	grep -q "^# Net anynet, API .*from ${2:-/}" "$work/log" || {
		cat "$work/log"
		fail "anynet perf took another net"
	}
}

# The conformance suite with the file of that name.
conforms() {
	local subject
	for subject in lifecycle transfer close; do
		quietly inside "$build/tests/conformance/conformance_$subject" "$1" 0
	done
}

# Another vendor's plugin: an empty library with that soname, as some have.
vendor_library() {
	quietly gcc -shared -nostdlib -Wl,-soname,libnccl-net.so -x c /dev/null -o "$work/vendor.so"
	install -D -m 644 "$work/vendor.so" "$root$1"
}

# Only the databases of the package managers and the loader may differ from before.
nothing_left() {
	(cd "$upper" && find . ! -type d ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' \
		! -path './var/lib/rpm/*' ! -path './root/.rpmdb/*' ! -path './var/cache/*' ! -path './var/log/*' \
		! -path './var/lib/systemd/*' ! -path './etc/ld.so.cache' ! -path './usr/lib/sysimage/*' \
		! -path ./etc/dpkg/dpkg.cfg.d/anynet-package ! -path ./var/lib/man-db/auto-update | grep .) &&
		fail "left behind by $1"
	(cd "$upper" && find . -type d -name 'anynet*' | grep .) && fail "directories left behind by $1"
	:
}

# --- .deb ---

# A package of the same name with a higher version and one file that differs.
next_version() {
	dpkg-deb -R "$1" "$work/next"
	sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
	echo next >>"$work/next/usr/share/doc/anynet-nccl-net/CHANGELOG.md"
	quietly dpkg-deb --root-owner-group -b "$work/next" "$root/tmp/next.deb"
}

deb_used() {
	quietly inside apt-get install -y /tmp/plugin.deb /tmp/tools.deb
	works "" "/usr/lib/anynet/libnccl-net.so"
	leads /usr/lib/anynet/libnccl-net.so
	works libnccl-net.so
	works libnccl-net-anynet.so
	quietly inside ldconfig
	leads /usr/lib/anynet/libnccl-net.so
	conforms libnccl-net-anynet.so
	quietly inside man -w anynet
	quietly inside bash -c '. /usr/share/bash-completion/completions/anynet && complete -p anynet'
}

# deb_upgraded COMMAND...: the command gets the package
deb_upgraded() {
	exec 3<"$root/usr/lib/anynet/libnccl-net.so" # in use
	quietly inside update-alternatives --set libnccl-net.so /usr/lib/anynet/libnccl-net.so
	quietly inside "$@" /tmp/next.deb
	inside dpkg-query -W -f '${Version}' anynet-nccl-net | grep '+next$' >/dev/null || fail "no upgrade"
	[ "$root/usr/lib/anynet/libnccl-net.so" -ef /proc/self/fd/3 ] && fail "the library in use was written over"
	cmp - "$packaged" <&3
	exec 3<&-
	leads /usr/lib/anynet/libnccl-net.so # the manual choice is kept, against a higher priority
	quietly inside update-alternatives --auto libnccl-net.so
}

# Another vendor's plugin that uses update-alternatives, with a higher priority.
deb_beside_other() {
	vendor_library /opt/vendor/lib/libnccl-net.so
	quietly inside update-alternatives --install "$loader/libnccl-net.so" libnccl-net.so \
		/opt/vendor/lib/libnccl-net.so 90
	leads /opt/vendor/lib/libnccl-net.so
	quietly inside ldconfig
	leads /opt/vendor/lib/libnccl-net.so
	works libnccl-net-anynet.so
	works "" "/usr/lib/anynet/libnccl-net.so"
}

# Another vendor's plugin in the place of the link.
deb_behind_other() {
	vendor_library "$loader/libnccl-net.so"
	quietly inside dpkg --no-triggers -i /tmp/plugin.deb
	quietly inside ldconfig
	cmp "$work/vendor.so" "$root$loader/libnccl-net.so"
	works libnccl-net-anynet.so
	quietly inside dpkg --no-triggers -P anynet-nccl-net
	cmp "$work/vendor.so" "$root$loader/libnccl-net.so"
	rm "$root$loader/libnccl-net.so"
}

deb() {
	local triplet
	command -v apt-get >/dev/null || skip "no apt-get: not a Debian system"
	enter
	pack DEB "$work/deb"
	triplet=$(gcc -print-multiarch)
	loader=/usr/lib/$triplet
	cp "$work"/deb/anynet-nccl-net_*.deb "$root/tmp/plugin.deb"
	cp "$work"/deb/anynet-tools_*.deb "$root/tmp/tools.deb"
	next_version "$root/tmp/plugin.deb"
	deb_used
	deb_beside_other
	deb_upgraded dpkg --no-triggers -i
	quietly inside dpkg --no-triggers -r anynet-nccl-net
	leads /opt/vendor/lib/libnccl-net.so
	quietly inside update-alternatives --remove libnccl-net.so /opt/vendor/lib/libnccl-net.so
	rm -r "$root/opt/vendor"
	deb_behind_other
	quietly inside dpkg --no-triggers -P anynet-nccl-net anynet-tools
	nothing_left "the .deb"
}

# --- .deb, in a minimal system ---

by_request() {
	[ "${ANYNET_DEBOOTSTRAP:-}" = 1 ] ||
		skip "it downloads a Debian system; ANYNET_DEBOOTSTRAP=1 in the environment runs it"
}

# A new Debian of that release in $root. It uses this system's network: apt downloads what the suite needs.
bootstrap() {
	command -v debootstrap >/dev/null || skip "no debootstrap (packages.txt, [debootstrap])"
	[ "$(id -u)" = 0 ] || skip "needs root, for chroot"
	mount -t tmpfs -o mode=755 anynet-package "$work" || skip "no tmpfs"
	debootstrap --variant=minbase "$1" "$root" >"$work/log" 2>&1 ||
		skip "debootstrap failed: $(tail -1 "$work/log")"
	mount -t proc proc "$root/proc"
	mount --bind /sys "$root/sys"
	mount -t tmpfs tmpfs "$root/dev/shm"
	cp /etc/resolv.conf "$root/etc/"
}

clean() {
	local before install=(apt-get install -y --no-install-recommends)
	by_request
	bootstrap bookworm
	pack DEB "$work/deb"
	cp "$work"/deb/anynet-nccl-net_*.deb "$root/tmp/plugin.deb"
	cp "$work"/deb/anynet-tools_*.deb "$root/tmp/tools.deb"
	next_version "$root/tmp/plugin.deb"
	loader=/usr/lib/$(gcc -print-multiarch)
	before=$(inside dpkg-query -W -f '${Package}\n')
	quietly inside "${install[@]}" /tmp/plugin.deb /tmp/tools.deb
	works "" /usr/lib/anynet/libnccl-net.so
	comm -13 <(sort <<<"$before") <(inside dpkg-query -W -f '${Package}\n' | sort) | grep -v ^anynet &&
		fail "the packages depend on more than what every system has"
	quietly inside "${install[@]}" libcmocka0 # the suite's
	mkdir -p "$root$build"
	mount --bind "$build" "$root$build"
	conforms libnccl-net-anynet.so
	deb_beside_other
	deb_upgraded "${install[@]}"
	leads /opt/vendor/lib/libnccl-net.so
	quietly inside update-alternatives --set libnccl-net.so /usr/lib/anynet/libnccl-net.so
	conforms libnccl-net.so
	# And back again, as in docs/operations.md.
	quietly inside "${install[@]}" --allow-downgrades /tmp/plugin.deb
	leads /usr/lib/anynet/libnccl-net.so
	works libnccl-net.so
	quietly inside apt-get purge -y anynet-nccl-net anynet-tools
	leads /opt/vendor/lib/libnccl-net.so
	quietly inside update-alternatives --remove libnccl-net.so /opt/vendor/lib/libnccl-net.so
	(cd "$root" && find usr/lib usr/bin usr/share/doc usr/share/man etc -name '*anynet*' -o -name 'libnccl-net*' | grep .) &&
		fail "left behind by the .deb"
	:
}

# --- .deb, on an old system ---

old() {
	by_request
	bootstrap bullseye
	pack DEB "$work/deb"
	cp "$work"/deb/anynet-nccl-net_*.deb "$root/tmp/plugin.deb"
	cp "$work"/deb/anynet-tools_*.deb "$root/tmp/tools.deb"
	quietly inside apt-get install -y --no-install-recommends /tmp/plugin.deb /tmp/tools.deb
	quietly inside apt-get install -y --no-install-recommends libcmocka0 # the suite's
	echo "tried with $(inside getconf GNU_LIBC_VERSION)"
	works "" /usr/lib/anynet/libnccl-net.so
	quietly inside anynet devices
	mkdir -p "$root$build"
	mount --bind "$build" "$root$build"
	conforms libnccl-net-anynet.so
}

# --- the source, in a system with the [build] packages only ---

from_source() {
	by_request
	bootstrap bookworm
	# shellcheck disable=SC2046
	quietly inside apt-get install -y --no-install-recommends \
		$(awk '/^\[/ { inside = $1 == "[build]"; next } inside && NF' "$source/packages.txt")
	mkdir -p "$root$source"
	mount --bind "$source" "$root$source"
	quietly inside cmake -S "$source" -B /tmp/build
	quietly inside cmake --build /tmp/build -j 2
	quietly inside cmake --install /tmp/build
	quietly inside ldconfig
	quietly inside /usr/local/bin/anynet perf -e 64K -n 2 -w 1 --net libnccl-net.so
	grep -qF 'Out of bounds values : 0 OK' "$work/log" || fail "anynet perf: not verified"
}

# --- .rpm ---

rpm_package() {
	command -v rpmbuild >/dev/null || skip "no rpmbuild"
	command -v update-alternatives >/dev/null || skip "no update-alternatives"
	enter
	pack RPM "$work/rpm"
	loader=/usr/lib64
	cp "$work"/rpm/anynet-nccl-net-*.rpm "$root/tmp/plugin.rpm"
	cp "$work"/rpm/anynet-tools-*.rpm "$root/tmp/tools.rpm"
	# This system's libraries are not in an rpm database.
	quietly inside rpm -i --nodeps --force-debian /tmp/plugin.rpm /tmp/tools.rpm
	works "" "/usr/lib/anynet/libnccl-net.so"
	leads /usr/lib/anynet/libnccl-net.so
	works "$loader/libnccl-net.so"
	works "$loader/libnccl-net-anynet.so"
	# %preun of an upgrade must not remove the link.
	quietly inside rpm -U --replacepkgs --nodeps --force-debian /tmp/plugin.rpm /tmp/tools.rpm
	leads /usr/lib/anynet/libnccl-net.so
	quietly inside rpm -e --nodeps anynet-nccl-net anynet-tools
	nothing_left "the .rpm"
}

# --- a container's image ---

# The lines of the Dockerfile, as far as the shell can run them.
image() {
	local context=$work/image verb rest
	enter
	DESTDIR=$context quietly cmake --install "$build" --prefix /opt/anynet
	echo 'LD_LIBRARY_PATH= PATH=/usr/bin:/bin' >"$work/env"
	while read -r verb rest; do
		case $verb in
		"" | "#"* | ARG | FROM) ;;
		COPY)
			# shellcheck disable=SC2086
			set -- $rest
			mkdir -p "$root$2"
			cp -a "$context/$1." "$root$2" || fail "COPY $rest"
			;;
		ENV) echo "export $rest" >>"$work/env" ;;
		*) fail "Dockerfile: $verb is more than copying" ;;
		esac
	done <"$source/packaging/Dockerfile"
	cp "$work/env" "$root/tmp/env"
	quietly inside bash -c '. /tmp/env && anynet perf -e 64K -n 2 -w 1 --net "libnccl-net-$NCCL_NET_PLUGIN.so"'
	grep -qF 'Out of bounds values : 0 OK' "$work/log" || fail "anynet perf: not verified"
	grep -qF 'from /opt/anynet/lib/libnccl-net' "$work/log" || fail "anynet perf took another net"
}

# --- the unit ---

unit() {
	local line option
	line=$(sed -n 's|^ExecStart=/usr/bin/anynet ||p' "$source/packaging/anynet-export.service")
	for option in $(grep -oE -- '--[a-z]+' <<<"$line"); do
		"$build/tools/anynet" "${line%% *}" --usage | grep -E -- "\[${option}[]=]" >/dev/null ||
			fail "the tool does not know ${line%% *} $option"
	done
	command -v systemd-analyze >/dev/null ||
		skip "no systemd-analyze: the unit's command exists, its settings were not verified"
	sed "s|=/usr/bin/anynet|=$build/tools/anynet|" "$source/packaging/anynet-export.service" \
		>"$work/anynet-export.service"
	systemd-analyze verify --man=no "$work/anynet-export.service" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
	[ ! -s "$work/log" ] || fail "$(cat "$work/log")"
	systemd-analyze security --help | grep -e --offline >/dev/null ||
		skip "systemd $(systemctl --version | awk 'NR == 1 { print $2 }') cannot tell how exposed a unit is that it does not run"
	# From 0 to 100. The rest is for running as root, and for reading other users' files.
	systemd-analyze security --no-pager --offline=true --threshold=15 "$work/anynet-export.service" \
		>"$work/log" 2>&1 || fail "$(grep '^-' "$work/log" || cat "$work/log")"
	sed -n 's/^-> //p' "$work/log"
}

# --- the unit, running ---

# Runs this script again with what systemd needs: its own mounts, processes and cgroups.
system() {
	mount -t proc proc "$root/proc"
	# It must not change settings of this kernel.
	mount --bind "$root/proc/sys" "$root/proc/sys"
	mount -o remount,bind,ro "$root/proc/sys"
	umount -l "$root/sys"
	mount -t sysfs -o ro sysfs "$root/sys"
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
	exec chroot "$root" env -i container=anynet-package PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --system --unit=anynet-export.service
}

# control ARGUMENT...: systemctl, which is answered only inside
control() {
	nsenter --target "$(pgrep -P "$system")" --mount --pid --root systemctl "$@"
}

service() {
	local metrics job system main
	[ -x /lib/systemd/systemd ] || skip "no systemd"
	enter
	mount -t proc proc /proc # of these processes
	unshare --pid --fork --mount --cgroup mount -t cgroup2 cgroup2 "$root/mnt" 2>/dev/null || skip "no cgroup2"
	DESTDIR=$root quietly cmake --install "$build" --component tools --prefix /usr
	# Only the unit is started, and once.
	mkdir -p "$root/etc/systemd/system/anynet-export.service.d"
	printf '[Unit]\nDefaultDependencies=no\n[Service]\nRestart=no\n' \
		>"$root/etc/systemd/system/anynet-export.service.d/alone.conf"
	# A job of another user, whose statistics file only that user and root may read.
	(inside setpriv --reuid 4711 --regid 4711 --clear-groups anynet perf -b 64K -e 64K -n 1000000 \
		--net "$build/libnccl-net.so") >"$work/said" 2>&1 &
	job=$!
	until compgen -G "$root/dev/shm/anynet-stats.*" >/dev/null; do
		kill -0 "$job" 2>/dev/null || fail "$(cat "$work/said")"
	done
	[ -z "$(find "$root/dev/shm" -name 'anynet-stats.*' -perm /077)" ] || fail "others may read a page"
	metrics=$root/run/anynet-export/anynet.prom
	PACKAGE_SYSTEM=$root unshare --pid --fork --kill-child --mount --uts --ipc --cgroup \
		"$0" "$case" "$build" "$source" "$cpack" "$floor" >"$work/said" 2>&1 &
	system=$!
	disown "$system"
	until [ -s "$metrics" ]; do
		kill -0 "$system" 2>/dev/null || fail "systemd has ended: $(cat "$work/said")"
		! control --quiet is-failed anynet-export 2>/dev/null || fail "$(control status anynet-export)"
	done
	grep -q '^anynet_process_info{' "$metrics" || fail "it does not see the job: $(cat "$metrics")"
	[ "$(control show -P ActiveState anynet-export)" = active ] || fail "$(control status anynet-export)"
	main=$(pgrep -f '^/usr/bin/anynet export --textfile')
	for line in CapEff:0000000000000004 CapBnd:0000000000000004 NoNewPrivs:1 Seccomp:2; do
		tr -d '\t' <"/proc/$main/status" | grep -xF "$line" >/dev/null || fail "no $line: $(cat "/proc/$main/status")"
	done
	control stop anynet-export
	[ "$(control show -P Result anynet-export)" = success ] || fail "$(control status anynet-export)"
	[ ! -e "$root/run/anynet-export" ] || fail "the metrics have not gone with the unit"
	kill -KILL "$system"
}

if [ -n "${PACKAGE_SYSTEM:-}" ]; then
	root=$PACKAGE_SYSTEM
	system
fi
case $case in
deb | rpm | image | service) [ "${PACKAGE_APART:-}" = 1 ] || apart ;;
clean | old | source) # mounts of its own
	if [ "${PACKAGE_APART:-}" != 1 ] && [ "${ANYNET_DEBOOTSTRAP:-}" = 1 ] && [ "$(id -u)" = 0 ]; then
		PACKAGE_APART=1 TMPDIR=/tmp exec unshare --mount --pid --fork --kill-child \
			"$0" "$case" "$build" "$source" "$cpack" "$floor"
	fi
	;;
esac
work=$(mktemp -d)
upper=$work/upper root=$work/root
# What is still mounted there belongs to this system: rm must not enter it.
trap 'umount -l "$work" 2>/dev/null || :; rm -rf --one-file-system "$work"' EXIT
case $case in
contents) contents ;;
deb) deb ;;
clean) clean ;;
old) old ;;
source) from_source ;;
rpm) rpm_package ;;
image) image ;;
unit) unit ;;
service) service ;;
*) fail "no case $case" ;;
esac
echo "package: as it should be"
