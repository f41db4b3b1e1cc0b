# SPDX-License-Identifier: PostgreSQL
"""The linters are silent: clang-format, clang-tidy, cppcheck and shellcheck."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.source import ROOT, room, scripts, short, with_suffix

BUILD = Path(os.environ.get("PGLEADER_BUILD", ROOT / "build/dev"))
LLVM = "14"  # the formatting of another release differs
CORES = len(os.sched_getaffinity(0))
TIDIED = {"base", "pg", "observe", "exporter", "tui", "candidate"}

# The analyzer looks into one function at a time: across them it does not know that a function that returns false
# leaves its outputs alone, nor __attribute__((cleanup)). Sanitizers, valgrind and the fuzz harnesses look there.
SHALLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")]

# What cppcheck is not asked: it knows neither __attribute__((cleanup)), nor that open_memstream sets its pointer, nor
# that NULL is a pointer here; glibc's readdir is safe on a stream of one's own.
NOT_ASKED = ("missingIncludeSystem", "unmatchedSuppression", "resourceLeak", "memleak", "uninitvar", "varFuncNullUB",
             "readdirCalled", "returnDanglingLifetime")


def tool(name):
    return shutil.which(f"{name}-{LLVM}") or shutil.which(name) or pytest.fail(
        f"could not find {name}: run scripts/install-deps --test")


def run(*argv):
    done = subprocess.run([str(a) for a in argv], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def compiled():
    """The sources of the rooms that this build compiles, generated ones excepted."""
    database = json.loads((BUILD / "compile_commands.json").read_text())
    paths = {Path(entry["file"]) for entry in database}
    return sorted(p for p in paths if p.is_relative_to(ROOT) and room(p) in TIDIED)


def test_clang_format():
    code, output = run(tool("clang-format"), "--dry-run", "-Werror", *with_suffix(".c", ".h"))
    assert code == 0, output[:4000]


def test_clang_tidy():
    sources = compiled()
    assert sources, f"{BUILD}/compile_commands.json names no source"
    with ThreadPoolExecutor(CORES) as pool:
        results = pool.map(lambda p: (p, *run(tool("clang-tidy"), "--quiet", "-p", BUILD, *SHALLOW, p)), sources)
    wrong = [f"{short(path)}:\n{output}" for path, code, output in results if code != 0]
    assert not wrong, "\n".join(wrong)[:8000]


def test_cppcheck():
    code, output = run(
        tool("cppcheck"), "--quiet", "--error-exitcode=1", "--enable=warning,portability,performance",
        "--std=c11", "-D_GNU_SOURCE", "--inline-suppr", "--library=posix",
        *(f"--suppress={name}" for name in NOT_ASKED), f"-j{CORES}", f"-I{ROOT}",
        '--template={file}:{line}: {severity}: {id}: {message}', *compiled())
    assert code == 0, output[:4000]


def test_shellcheck():
    shell = scripts("sh")
    assert ROOT / "scripts/install-deps" in shell
    code, output = run(tool("shellcheck"), "--severity=style", *shell)
    assert code == 0, output[:4000]


def test_python_compiles():
    """Every Python file and script is at least syntax for the Python that runs the tests."""
    wrong = []
    for path in with_suffix(".py") + scripts("python"):
        try:
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
        except SyntaxError as error:
            wrong.append(f"{short(path)}: {error}")
    assert not wrong, "\n".join(wrong)
