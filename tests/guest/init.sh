#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The guest's first program, in its initramfs: loads what is needed to reach the host's files, makes
# a root of them that can be written to (the writes stay in the guest's memory), and goes on there.
# All there is at this point is busybox.

b=/bin/busybox

$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev

stop() {
	echo "guest: $*"
	$b poweroff -f
}

while read -r module; do
	$b insmod "/modules/$module" || echo "guest: cannot load $module"
done </modules/order

# share NAME DIRECTORY OPTIONS: mount what the host shares under that name
share() {
	$b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=1048576,$3" "$1" "$2" ||
		stop "cannot mount the host's $1"
}

# cache=loose: the host's files are assumed not to change while the guest runs.
share root /host ro,cache=loose
$b mount -t tmpfs -o size=75% tmpfs /writes
$b mkdir /writes/upper /writes/work
$b mount -t overlay -o lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work overlay /new ||
	stop "cannot mount the overlay"

for directory in proc sys dev; do
	$b mount --move /$directory /new/$directory
done
$b mkdir -p /new/dev/shm /new/dev/pts
$b mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
$b mount -t devpts devpts /new/dev/pts
$b mount -t tmpfs -o mode=755 tmpfs /new/run
$b mkdir -p /new/run/guest /new/run/lock /new/run/netns
share run /new/run/guest cache=none

exec $b chroot /new /bin/bash /run/guest/start.sh
