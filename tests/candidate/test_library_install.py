# SPDX-License-Identifier: PostgreSQL
"""libpgleader as it is installed: its names, its packages, and the worked example built against them and failed on purpose."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.exporter import program
from tests.support.wait import wait_until

BUILD = program("x").parents[1]
HEADER = ROOT / "candidate/pgleader.h"
DUTY, INVOICES = "jobs/invoice-reconcile", 60

# Uses every function of the header's, so that each of them has to be there.
USES = """
#include <pgleader.h>
%s
int main(void)
{
    struct pgleader_options options;
    struct pgleader_error error;
    pgleader_options_init(&options);
    options.duty = "Not a duty";
    void (*const all[])(void) = {%s};
    return pgleader_new(&options, &error) == NULL && error.code == PGLEADER_ERROR_USAGE && all[0] ? 0 : 1;
}
"""


def run(*argv, **more):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def declared():
    """The functions of the header."""
    return set(re.findall(r"^PGLEADER_API [^;]*?\b(pgleader_\w+)\(", HEADER.read_text(), re.M | re.S))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installed to one place and moved to another: nothing of it knows where it is."""
    first = tmp_path_factory.mktemp("first")
    run("cmake", "--install", BUILD, "--prefix", first / "usr", "--component", "libpgleader")
    moved = tmp_path_factory.mktemp("moved") / "usr"
    shutil.move(first / "usr", moved)
    return moved


def library_folder(prefix):
    return next(prefix.rglob("libpgleader.so")).parent


def pkg_config(prefix, *words):
    env = {**os.environ, "PKG_CONFIG_PATH": str(library_folder(prefix) / "pkgconfig")}
    return run("pkg-config", *words, env=env).split()


def environment(prefix):
    return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library_folder(prefix)), "LC_ALL": "C"}


def test_what_is_installed(prefix):
    names = {str(p.relative_to(prefix)) for p in prefix.rglob("*") if not p.is_dir()}
    folder = str(library_folder(prefix).relative_to(prefix))
    version = pkg_config(prefix, "--modversion", "pgleader")[0]
    assert {n for n in names if "cmake" not in n} == {
        "include/pgleader.h", f"{folder}/libpgleader.so", f"{folder}/libpgleader.so.0",
        f"{folder}/libpgleader.so.{version}", f"{folder}/libpgleader.a", f"{folder}/pkgconfig/pgleader.pc"}
    assert "libpgleader.so.0]" in run("readelf", "-d", library_folder(prefix) / "libpgleader.so")


def test_only_the_header_s_names_are_shown(prefix):
    """In the header, in the map, in the shared and in the static library: the same, and no other."""
    folder, wanted = library_folder(prefix), declared()
    assert len(wanted) > 20
    assert set(re.findall(r"\b(pgleader_\w+);", (ROOT / "candidate/pgleader.map").read_text())) == wanted
    shared = run("nm", "-D", "--defined-only", "--format=posix", folder / "libpgleader.so").splitlines()
    assert {line.split("@")[0].split()[0] for line in shared} == wanted | {"PGLEADER_0"}
    static = run("nm", "-g", "--defined-only", "--format=posix", folder / "libpgleader.a").splitlines()
    assert {line.split()[0] for line in static if " T " in line} == wanted
    assert not [line for line in static if re.search(r" [^TUA] ", line)], "data of ours is shown"


@pytest.mark.parametrize("compiler", [["cc", "-std=c11"], ["cc", "-std=c99", "-Wno-pedantic"], ["c++", "-std=c++11"],
                                      ["c++", "-std=c++20"]], ids=" ".join)
@pytest.mark.parametrize("libpq", ["", "#include <libpq-fe.h>"], ids=["alone", "with libpq-fe.h"])
def test_the_header_stands_alone(prefix, tmp_path, compiler, libpq):
    """In C and C++, with and without libpq's own header, and without a warning."""
    source = tmp_path / ("use.cc" if compiler[0] == "c++" else "use.c")
    source.write_text(USES % (libpq, ", ".join(f"(void (*)(void)){n}" for n in sorted(declared()))))
    run(*compiler, "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", source, "-o", tmp_path / "use",
        *pkg_config(prefix, "--cflags", "--libs", "pgleader", "libpq"))
    run(tmp_path / "use", env=environment(prefix))


def test_static(prefix, tmp_path):
    """One archive, and a program that needs no libpgleader.so."""
    run("cc", "-Wall", "-Werror", ROOT / "examples/c/reconcile.c", "-o", tmp_path / "reconcile",
        *pkg_config(prefix, "--cflags", "pgleader", "libpq"), library_folder(prefix) / "libpgleader.a", "-lpq", "-lcrypto",
        "-pthread")
    assert "libpgleader" not in run("readelf", "-d", tmp_path / "reconcile")
    done = subprocess.run([tmp_path / "reconcile", "Jobs", "host=nowhere"], capture_output=True, text=True)
    assert done.returncode == 1 and "not namespace/name" in done.stderr


def by_pkg_config(prefix, folder):
    flags = pkg_config(prefix, "--cflags", "--libs", "pgleader", "libpq")
    run("cc", "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", ROOT / "examples/c/reconcile.c", "-o",
        folder / "reconcile", *flags)
    return folder / "reconcile"


def by_cmake(prefix, folder):
    """With find_package, for the shared and the static library."""
    shutil.copytree(ROOT / "examples/c", folder / "source")
    lists = folder / "source/CMakeLists.txt"
    lists.write_text(lists.read_text() + "add_executable(static reconcile.c)\n"
                     "target_link_libraries(static PRIVATE pgleader::pgleader_static PostgreSQL::PostgreSQL)\n")
    run("cmake", "-S", folder / "source", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder / "build")
    assert "libpgleader" not in run("readelf", "-d", folder / "build/static")
    return folder / "build/reconcile"


@pytest.fixture(scope="module", params=[by_pkg_config, by_cmake], ids=["pkg-config", "CMake"])
def example(request, prefix, tmp_path_factory):
    return request.param(prefix, tmp_path_factory.mktemp("example"))


@pytest.fixture
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.script(ROOT / "examples/invoices.sql")
        cluster.sql("select pgleader.register_duty(%s, lock_key => 742118)", (DUTY,))
        cluster.sql("insert into invoice_batch values (1), (2)")
        cluster.sql("insert into invoice select batch, generate_series(1, %s) from invoice_batch", (INVOICES,))
        yield cluster


class Worker:
    """The example, running; `said` is what it has written."""

    def __init__(self, example, prefix, pg, folder, name):
        self.path = folder / name
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen([example, DUTY, pg.conninfo(), "20"], stdout=out, stderr=out,
                                            env=environment(prefix))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def said(self):
        return self.path.read_text()


def position(pg):
    return (pg.sql("select position from pgleader.current_run where duty = %s", (DUTY,)) or [(0,)])[0][0] or 0


def leading(pg, workers):
    """(the worker that works, its generation), once the cursor moves."""
    at = position(pg)
    wait_until(lambda: position(pg) != at, "the cursor moves", 30)
    generation = pg.sql("select generation from pgleader.current_term where duty = %s", (DUTY,))[0][0]
    return next(w for w in workers if f"leads {generation}\n" in w.said()), generation


def test_the_worked_example(example, prefix, pg, tmp_path):
    """Two candidates; the leader's session is terminated, then the process killed, then one told to stop: each invoice once."""
    with Worker(example, prefix, pg, tmp_path, "a") as a, Worker(example, prefix, pg, tmp_path, "b") as b:
        workers = {a, b}
        worker, first = leading(pg, workers)
        pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty")
        wait_until(lambda: f"stopped {first}: " in worker.said(), "its work has stopped")
        assert worker.said().count(f"lost {first} session-lost\n") == 1
        worker, second = leading(pg, workers)
        assert second > first and f"claimed {second} batch-" in worker.said() and ": resumed at " in worker.said()
        worker.process.kill()
        workers.remove(worker)
        worker, third = leading(pg, workers)
        assert third > second
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(20) == 128 + signal.SIGTERM, worker.said()
        assert worker.said().count(f"lost {third} signal\n") == 1
    assert pg.sql("select end_reason from pgleader.current_term where duty = %s", (DUTY,)) == [("signal",)]
    with Worker(example, prefix, pg, tmp_path, "c") as c:
        assert c.process.wait(60) == 0, c.said()
    assert pg.sql("select batch, count(*), count(distinct number), max(number) from reconciliation group by 1 order by 1") \
        == [(1, INVOICES, INVOICES, INVOICES), (2, INVOICES, INVOICES, INVOICES)]
    assert pg.sql("select status, receipt from pgleader.run order by run_key") \
        == [("complete", {"invoices": INVOICES})] * 2
