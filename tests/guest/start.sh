#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The guest's process 1 once it has the host's files: runs the one command it was booted for, leaves
# the exit status where the host finds it, and switches the machine off. guest.sh
# puts it into /run/guest, and there beside it `command`, a script, and `modules`, a path.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root TERM=dumb LANG=C.UTF-8

ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr

# modprobe looks in one directory only, which on the host belongs to another kernel or does not exist.
mkdir -p /lib/modules
mount --bind "$(</run/guest/modules)" /lib/modules
ip link set lo up
ulimit -c 0
ulimit -l unlimited

# The output is a port that can be opened once: cat holds it, all others a pipe to it.
# It appears a moment after its driver.
until port=$(compgen -G '/dev/vport*p1'); do sleep 0.02; done
exec 3> >(exec cat >"$port")
writer=$!
date +%s.%N >/run/guest/up
setsid bash /run/guest/command </dev/null >&3 2>&3 3>&-
status=$?
exec 3>&-
# Processes that the command left running may hold the pipe: they get this much time.
timeout 3 tail -s 0.02 --pid="$writer" -f /dev/null

dmesg >/run/guest/dmesg
echo "$status" >/run/guest/status
echo o >/proc/sysrq-trigger
sleep infinity
