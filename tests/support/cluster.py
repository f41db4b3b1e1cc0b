# SPDX-License-Identifier: PostgreSQL
"""A throwaway PostgreSQL cluster: real server, own directory, loopback and socket only, gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg

from .wait import wait_until

DEFAULT_MAJOR = 15
ROOT = Path(__file__).resolve().parents[2]

SETTINGS = {
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "16MB",
    "listen_addresses": "'127.0.0.1'",
    "log_line_prefix": "'%m [%p] %a '",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
}


def server_user():
    """The user that servers run as: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("could not start PostgreSQL: root, and no user postgres or nobody to run it as")


def demote():
    """Keyword arguments for subprocess that run a command as server_user()."""
    user = server_user()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def bindir(major=DEFAULT_MAJOR):
    """Where the programs of a major version are: Debian's, or the ones scripts/install-deps fetched."""
    debian = Path(f"/usr/lib/postgresql/{major}/bin")
    if debian.exists():
        return debian
    cache = Path("/var/cache/pgleader") if os.getuid() == 0 else Path.home() / ".cache" / "pgleader"
    found = Path(os.environ.get("PGLEADER_PG_HOME", cache / "postgres")) / f"pg{major}" / "bin"
    if not found.exists():
        raise RuntimeError(f"could not find PostgreSQL {major}: neither {debian} nor {found}; run scripts/install-deps --versions")
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """One server. `with Cluster() as pg:` starts it and removes it, whatever happens."""

    def __init__(self, major=DEFAULT_MAJOR, settings=None, port=None, hba=None):
        self.major = major
        self.bin = bindir(major)
        self.port = port or free_port()
        self.settings = {**SETTINGS, **(settings or {})}
        self.hba = hba
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-pg-"))
        self.base.chmod(0o755)
        self.data = self.base / "data"
        self.log = self.base / "log"
        self.user = "postgres"
        user = server_user()
        if user is not None:
            os.chown(self.base, user.pw_uid, user.pw_gid)

    def __enter__(self):
        self.init()
        self.start()
        return self

    def __exit__(self, *_):
        self.destroy()

    def command(self, *argv, check=True):
        done = subprocess.run([str(a) for a in argv], cwd=self.base, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **demote())
        if check and done.returncode != 0:
            raise RuntimeError(f"{argv[0]} failed: {done.stdout}{done.stderr}{self.log_text()[-2000:]}")
        return done

    def init(self):
        self.command("cp", "-a", self.template(), self.data)
        self.configure(self.settings)
        if self.hba:
            self.write(self.data / "pg_hba.conf", self.hba)

    def template(self):
        """A data directory as initdb makes it, made once a machine: a copy is there in a tenth of the time.

        Clusters of one major version therefore share their system identifier, as copies of a disk would.
        """
        made = int((self.bin / "initdb").stat().st_mtime)
        found = Path(tempfile.gettempdir()) / f"pgleader-template-{os.getuid()}-{self.major}-{made}"
        if not found.exists():
            fresh = self.base / "template"
            self.command(self.bin / "initdb", "-D", fresh, "-U", self.user, "-A", "trust", "-N",
                         "-E", "UTF8", "--locale=C")
            try:
                fresh.rename(found)
            except OSError:
                shutil.rmtree(fresh)  # another test was quicker
        return found

    def write(self, path, text, mode="w"):
        with open(path, mode, encoding="utf-8") as f:
            f.write(text)

    def configure(self, settings):
        """Appends settings; they hold from the next start or reload."""
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        lines.append(f"port = {self.port}\nunix_socket_directories = '{self.base}'\n")
        self.write(self.data / "postgresql.conf", "".join(lines), mode="a")

    def start(self):
        self.command(self.bin / "pg_ctl", "-D", self.data, "-l", self.log, "-w", "-t", "30", "start")

    def stop(self, mode="fast"):
        self.command(self.bin / "pg_ctl", "-D", self.data, "-m", mode, "-w", "-t", "30", "stop")

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def reload(self):
        self.command(self.bin / "pg_ctl", "-D", self.data, "reload")

    def promote(self):
        self.command(self.bin / "pg_ctl", "-D", self.data, "-w", "promote")

    def destroy(self):
        if (self.data / "postmaster.pid").exists():
            self.signal_all(signal.SIGCONT)
            self.command(self.bin / "pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)
        shutil.rmtree(self.base, ignore_errors=True)

    def postmaster_pid(self):
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def signal_all(self, sig):
        """Signals the postmaster and each of its processes."""
        try:
            parent = self.postmaster_pid()
        except (OSError, ValueError):
            return
        listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
        for pid in [parent, *map(int, listing.stdout.split())]:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def conninfo(self, dbname="postgres", user=None, host="127.0.0.1", **more):
        words = {"host": host, "port": self.port, "dbname": dbname, "user": user or self.user, **more}
        return psycopg.conninfo.make_conninfo(**words)

    def connect(self, dbname="postgres", **kw):
        """A psycopg connection in autocommit mode; host, user, application_name and the like as keywords."""
        return psycopg.connect(self.conninfo(dbname, **kw), autocommit=True)

    def sql(self, query, params=None, dbname="postgres", **kw):
        """Runs a statement on a connection of its own and returns its rows."""
        with self.connect(dbname, **kw) as conn:
            cursor = conn.execute(query, params)
            return cursor.fetchall() if cursor.description else None

    def script(self, path, dbname="postgres"):
        """Runs a file of plain SQL as one simple query, as psql -1 -f would."""
        with self.connect(dbname) as conn:
            conn.execute(Path(path).read_text())

    def install_ledger(self, dbname="postgres"):
        """Installs every file of ledger/, in order."""
        for path in sorted((ROOT / "ledger").glob("[0-9][0-9][0-9]_*.sql")) + [ROOT / "ledger" / "roles.sql"]:
            self.script(path, dbname)

    def standby(self):
        """A streaming standby of this cluster; needs wal_level=replica (the default). Not started."""
        other = Cluster(self.major, self.settings)
        self.command(self.bin / "pg_basebackup", "-D", other.data, "-h", self.base, "-p", self.port,
                     "-U", self.user, "-R", "-N", "-c", "fast", "-X", "stream")
        other.configure(other.settings)
        return other

    def wait_ready(self):
        wait_until(lambda: self.sql("select 1"), "the server answers")


def hold_lock(cluster, key, application_name="holder", shared=False, **kw):
    """A session that holds an advisory lock; key is an int or a pair. Close it to release."""
    conn = cluster.connect(application_name=application_name, **kw)
    function = "pg_advisory_lock_shared" if shared else "pg_advisory_lock"
    args = key if isinstance(key, tuple) else (key,)
    casts = ["%s::int4"] * 2 if isinstance(key, tuple) else ["%s::int8"]
    conn.execute(f"select {function}({', '.join(casts)})", args)
    return conn
