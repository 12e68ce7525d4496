# SPDX-License-Identifier: Apache-2.0
"""Where the commands of the documents run: a directory with what they need, or a copy of this system."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap

SECONDS_SYSTEM = 900
LOG = "vm:19963:19963 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found\n"
STAND_INS = {
    # For a launcher: one process here, or two for a rendezvous.
    "srun": """while case ${1-} in -*) ;; *) false ;; esac; do shift; done
case "$*" in *--rendezvous*) ;; *) exec "$@" ;; esac
export SLURM_JOB_ID=1 SLURM_NTASKS=2 SLURM_NNODES=2
SLURM_PROCID=1 SLURM_NODEID=1 "$@" &
SLURM_PROCID=0 SLURM_NODEID=0 "$@"
status=$?
wait $! && exit $status""",
    # For ssh: the last argument is the command.
    "ssh": 'for command; do :; done; exec sh -c "$command"',
    # For kubectl: the log of the init container `check` of docs/operations.md.
    "kubectl": """[ "$*" = "logs POD -c check" ] || exit 1
sed -n "s/^ *command: \\[sh, -c, '\\(.*\\)'\\]$/\\1/p" docs/operations.md >check.sh
[ -s check.sh ] && { sh check.sh 2>&1 || :; }""",
}
# For apt-get in a copy of the system, which has no network: the real one for package files.
APT_GET = """case "$*" in *./*) yes | exec /usr/bin/apt-get "$@" ;; *) echo "apt-get $*" >>"$HOME/apt-get.log" ;; esac"""


def write_programs(folder, programs):
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def environment(**added):
    """That of the test without settings of NCCL and anynet; what tests/guest and tests/nccl keep is found as before."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("NCCL_", "ANYNET_")) or name.startswith(("ANYNET_NCCL_", "ANYNET_GUEST"))}
    env.setdefault("XDG_CACHE_HOME", f"{os.environ.get('HOME', '/root')}/.cache")
    return env | {"ANYNET_TRANSPORT": "tcp", "NCCL_SOCKET_IFNAME": "lo", "LC_ALL": "C.UTF-8"} | added


class Skipped(Exception):
    """A command that ended with 77: this host lacks what it needs."""


class Place:
    """Runs commands by what tests/docs/commands.txt says of them."""

    def __init__(self, source):
        loaded = re.search(r"^anynet: (version .*) …$", (source / "README.md").read_text(encoding="utf-8"), re.M)[1]
        loaded = re.sub(r"/\S+", "/FILE", loaded)
        self.words = {"loaded": re.escape(loaded).replace("/FILE", r"/\S+")}

    def filled(self, text):
        return re.sub(r"\{([a-z]+)\}", lambda match: self.words[match[1]], text)

    def bash(self, text):
        """(exit status, output) of a command; the status is None if it did not end."""
        raise NotImplementedError

    def prepare(self, text):
        """What a command needs besides the directory."""

    def background(self, command, pattern):
        """Start a program that ends with the test; the first match of `pattern` in what it prints."""
        raise NotImplementedError

    def run(self, entry, command):
        """What is wrong; None: nothing."""
        text = entry.get("as", command)
        self.prepare(text)
        if "until" in entry:
            self.background(["bash", "-c", self.filled(text)], entry["until"])
            return None
        for word, step in (("before", entry.get("before")), ("", text), ("then", entry.get("then"))):
            if step is None:
                continue
            folder = f"cd {entry['in']} || exit\n" if "in" in entry and word != "then" else ""
            status, said = self.bash(self.filled(folder + step))
            if status == 77:
                raise Skipped(said)
            ends = "0" if word else entry.get("ends", "0")
            what = f"{word} '{step}': " if word else ""
            if str(status) not in ends.split(","):
                return f"{what}exit status {status} instead of {ends}\n{textwrap.indent(said, '    ')}"
            if not word and "prints" in entry and not re.search(self.filled(entry["prints"]), said):
                return f"it does not print '{entry['prints']}':\n{textwrap.indent(said, '    ')}"
        return None


class Directory(Place):
    """A directory with logs, programs, and stand-ins for launchers; on demand a job that runs, and a server."""

    def __init__(self, source, build, stack, seconds):
        super().__init__(source)
        self.seconds = seconds
        self.dir = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.stack = stack
        here = self.dir
        for name in ("bin", "logs", "shm", "build"):
            (here / name).mkdir()
        for name in ("logs/rank0.log", "logs/rank1.log", "job.log", "job-1.txt"):
            (here / name).write_text(LOG, encoding="utf-8")
        write_programs(here / "bin", STAND_INS)
        write_programs(here, {"train": f"printf '%s' '{LOG.strip()}'; echo", "start": "true"})
        for name in ("Makefile", "CMakePresets.json", "CMakeLists.txt", "bench", "tests", "tools", "docs"):
            (here / name).symlink_to(source / name)
        (here / "build/release").symlink_to(build)
        self.env = environment(PATH=f"{here / 'bin'}:{build / 'tools'}:{build / 'bench'}:{os.environ['PATH']}", HOME=str(here),
                               ANYNET_STATS=str(here / "shm"))
        self.words |= {"source": str(source), "build": str(build), "here": str(here)}

    def background(self, command, pattern):
        process = subprocess.Popen(command, cwd=self.dir, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        self.stack.callback(process.wait)
        self.stack.callback(os.killpg, process.pid, signal.SIGKILL)
        said = ""
        for line in process.stdout:
            said += line
            match = re.search(pattern, line)
            if match:
                return match[match.re.groups]
        raise SystemExit(f"{' '.join(command)} ended without '{pattern}':\n{said}")

    def prepare(self, text):
        if "pid" in self.words or not re.search(r"\{(pid|server)\}|anynet top|--live", text):
            return
        plugin = f"{self.words['build']}/libnccl-net.so"
        self.words["pid"] = self.background(
            ["stdbuf", "-oL", "anynet", "perf", "--net", plugin, "-b", "64K", "-e", "64K", "-n", "1000000"], r"Rank  1 Pid +(\d+)")
        self.words["server"] = "127.0.0.1:" + self.background(["anynet", "serve", "--port", "0"], r"port (\d+)")
        while len(list((self.dir / "shm").glob("anynet-stats.*"))) < 2:
            pass

    def bash(self, text):
        try:
            done = subprocess.run(["bash", "-c", text], cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=self.seconds, check=False)
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {self.seconds} s"
        return done.returncode, done.stdout


def skip(reason):
    print(f"SKIP: {reason}")
    raise SystemExit(77)


class System(Place):
    """A copy of this system, with mounts, a network and processes of its own, and the source without what was built."""

    @staticmethod
    def enter():
        """This program again, in namespaces that end with it."""
        if os.environ.get("COMMANDS_APART"):
            return
        if os.geteuid():
            skip("needs root, for an overlay of this system")
        apart = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            skip("no mount or network namespaces here")
        os.execvpe(apart[0], [*apart, sys.executable, *sys.argv], os.environ | {"COMMANDS_APART": "1"})

    def __init__(self, source, stack):
        super().__init__(source)
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.mount(work, "-t", "tmpfs", "-o", "mode=755", "anynet-docs")
        stack.callback(subprocess.run, ["umount", "-l", work], check=True)
        self.root = work / "root"
        for name in ("upper", "work", "root"):
            (work / name).mkdir()
        self.mount(self.root, "-t", "overlay", "-o", f"lowerdir=/,upperdir={work / 'upper'},workdir={work / 'work'}", "anynet-docs")
        self.mount(self.root / "proc", "-t", "proc", "proc")
        for name in ("sys", "dev"):
            self.mount(self.root / name, "--rbind", f"/{name}")
        for name in ("run", "tmp", "dev/shm"):
            self.mount(self.root / name, "-t", "tmpfs", "tmpfs")
        for command in ("link set lo up", "link add eth0 type veth peer name eth1",
                        "addr add 192.0.2.1/24 dev eth0", "link set eth0 up", "link set eth1 up"):
            if subprocess.run(["ip", *command.split()], stderr=subprocess.DEVNULL, check=False).returncode:
                skip(f"no veth: ip {command} fails")
        self.fill(source)

    @staticmethod
    def mount(place, *arguments):
        done = subprocess.run(["mount", *arguments, place], capture_output=True, text=True, check=False)
        if done.returncode:
            skip(f"no mount of {arguments[-1]}: {done.stderr.strip()}")

    def fill(self, source):
        home, stand_ins = self.root / "root/anynet-docs", self.root / "root/anynet-docs/bin"
        stand_ins.mkdir(parents=True)
        (home / "anynet").mkdir()
        pack = subprocess.Popen(["tar", "-C", source, "--exclude-vcs", "--exclude=./build", "-cf", "-", "."], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-C", home / "anynet", "-xf", "-"], stdin=pack.stdout, check=True)
        if pack.wait():
            raise SystemExit("tar failed")
        write_programs(stand_ins, STAND_INS | {"apt-get": APT_GET})
        with (self.root / "etc/hosts").open("a", encoding="utf-8") as hosts:
            hosts.write(f"192.0.2.1 node1 {socket.gethostname()}\n")
        self.env = environment(PATH=f"/root/anynet-docs/bin:{os.environ['PATH']}:/usr/sbin:/sbin", HOME="/root/anynet-docs",
                               NCCL_SOCKET_IFNAME="eth0", CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count()),
                               SOURCE_DATE_EPOCH="1700000000")

    def bash(self, text):
        try:
            done = subprocess.run(["chroot", self.root, "bash", "-c", "cd ~/anynet || exit\n" + text], env=self.env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=SECONDS_SYSTEM, check=False)
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {SECONDS_SYSTEM} s"
        return done.returncode, done.stdout
