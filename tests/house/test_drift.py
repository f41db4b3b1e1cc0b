# SPDX-License-Identifier: PostgreSQL
"""What is written about the programs is what the programs do."""

import os
import re
import subprocess
from pathlib import Path

from tests.support.source import ROOT, files, room, short, text

BIN = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin"))
EXPORTER = BIN / "pgleader_exporter"
NAME = re.compile(r"\bpgleader_[a-z0-9_]+")
HISTOGRAM = re.compile(r"_(bucket|sum|count)$")

# Names that begin alike and are no metrics: programs, roles, and what libpgleader's header declares.
OTHERS = {"pgleader_exporter", "pgleader_reader", "pgleader_candidate", "pgleader_operator", "pgleader_owner",
          *NAME.findall(text(ROOT / "candidate/pgleader.h"))}
WRITTEN = {"etc", "docs", "dashboards", "alerts", "runbook", "packaging"}


def run(*argv):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, capture_output=True, text=True, timeout=30)


def listed():
    """The names that --list-metrics prints."""
    return {line.split("\t")[0] for line in run(EXPORTER, "--list-metrics").stdout.splitlines()}


def documents():
    return [path for path in files()
            if path.suffix == ".md" or room(path) in WRITTEN or (room(path) == "scripts" and path.suffix == ".py")]


def test_readme_has_the_metrics():
    """The README's table is what --list-metrics prints; scripts/update-readme writes it."""
    done = run(ROOT / "scripts/update-readme", "--check", EXPORTER)
    assert done.returncode == 0, f"run scripts/update-readme {EXPORTER}\n{done.stdout}{done.stderr}"


def test_written_names_exist():
    """Every pgleader_ name in the documents, examples, alerts and dashboards is a metric."""
    names = listed()
    assert len(names) > 40, f"--list-metrics prints {len(names)} names"
    wrong = []
    for path in documents():
        for name in sorted(set(NAME.findall(text(path))) - OTHERS):
            if name not in names and HISTOGRAM.sub("", name) not in names:
                wrong.append(f"{short(path)}: {name}")
    assert not wrong, "\n".join(wrong)


def test_every_option_exists():
    """Every --option of the exporter that the README names is in --help."""
    helped = set(re.findall(r"--[a-z][a-z.-]*", run(EXPORTER, "--help").stdout))
    assert "--config.file" in helped
    named = set(re.findall(r"`(--(?:web|config|log)[a-z.-]+)", text(ROOT / "README.md")))
    assert named and named <= helped, f"not in --help: {sorted(named - helped)}"


def test_the_example_configuration_parses():
    done = run(EXPORTER, "--check-config", f"--config.file={ROOT / 'etc/pgleader.example.yml'}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_configurations_parse(tmp_path):
    """Each YAML block of the README that names servers is a configuration."""
    blocks = [b for b in re.findall(r"```ya?ml\n(.*?)```", text(ROOT / "README.md"), re.S) if b.startswith("servers:")]
    assert blocks, "the README shows no configuration"
    for block in blocks:
        path = tmp_path / "pgleader.yml"
        path.write_text(block)
        done = run(EXPORTER, "--check-config", f"--config.file={path}")
        assert done.returncode == 0, done.stdout + done.stderr


def test_changelog_begins_with_this_version():
    """The newest entry of the changelog is the version that CMake builds and the program prints."""
    newest = re.search(r"^## (\S+)", text(ROOT / "CHANGELOG.md"), re.M)[1]
    built = re.search(r"project\(pgleader VERSION (\S+)", text(ROOT / "CMakeLists.txt"))[1]
    assert newest == built
    assert built in run(EXPORTER, "--version").stdout


def test_documents_link_to_what_is_there():
    """Every relative link of a Markdown file leads to a file."""
    wrong = []
    for path in files():
        if path.suffix == ".md":
            links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text(path))
            wrong += [f"{short(path)}: {link}" for link in links if not (path.parent / link).exists()]
    assert not wrong, "\n".join(wrong)


def test_install_deps_names_every_library():
    """Each library that CMake asks for has its package in scripts/install-deps."""
    packages = {"libpq": "libpq-dev", "libmicrohttpd": "libmicrohttpd-dev", "gnutls": "libgnutls28-dev",
                "libfyaml": "libfyaml-dev", "libsystemd": "libsystemd-dev", "libcrypt": "libcrypt-dev", "ncursesw": "libncurses-dev", "cmocka": "libcmocka-dev",
                "vterm": "libvterm-dev",
                "ZLIB": "zlib1g-dev", "OpenSSL": "libssl-dev", "Threads": "build-essential", "PkgConfig": "pkg-config"}
    cmake = text(ROOT / "CMakeLists.txt")
    wanted = re.findall(r"pkg_check_modules\(\w+ (?:REQUIRED )?IMPORTED_TARGET (\S+?)[\s)]", cmake)
    wanted += re.findall(r"find_package\((\w+)", cmake)
    script = text(ROOT / "scripts/install-deps")
    missing = [name for name in wanted if packages.get(name, f"(no package known for {name})") not in script]
    assert wanted and not missing, f"scripts/install-deps does not install: {missing}"
