# SPDX-License-Identifier: PostgreSQL
"""deploy/: every file is read by the program that it is for; what can only be judged in part here is judged in part."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.support.cluster import ROOT
from tests.support.exporter import program

DEPLOY = ROOT / "deploy"
RULES = ROOT / "alerts/pgleader.rules.yml"
UNITS = {"pgleader-exporter.service": "pgleader_exporter", "pgleader-run@.service": "pgleader-run"}
EXPOSURE = 1.5  # of systemd-analyze, where 10 is a service without any protection


def run(*argv, **more):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60, **more)


def manifests(name):
    return [each for each in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()) if each]


def manifest(kind):
    return next(each for each in manifests("exporter.yaml") if each["kind"] == kind)


def alert_names():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.mark.parametrize("unit, name", UNITS.items())
def test_units(tmp_path, unit, name):
    """systemd finds nothing wrong with them; only the path of the program is another here."""
    text = (DEPLOY / "systemd" / unit).read_text()
    assert f"/usr/bin/{name}" in text
    (tmp_path / unit).write_text(text.replace(f"/usr/bin/{name}", str(program(name))))
    done = run("systemd-analyze", "verify", "--man=no", tmp_path / unit.replace("@.", "@reconcile."))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_exporter_is_shut_in():
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE * 10:.0f}",
               DEPLOY / "systemd/pgleader-exporter.service")
    assert done.returncode == 0, done.stdout


def test_prometheus(tmp_path):
    """With the rules where the configuration looks for them."""
    shutil.copy(DEPLOY / "prometheus/prometheus.yml", tmp_path)
    (tmp_path / "rules").mkdir()
    shutil.copy(RULES, tmp_path / "rules")
    done = run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0 and re.search(r"SUCCESS: \d+ rules found", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("labels, receiver", [
    (["severity=critical", "team=platform"], "platform-pager"),
    (["severity=warning", "team=platform"], "platform-tickets"),
    (["severity=critical", "team=billing"], "billing-pager"),
    (["severity=warning", "team=billing"], "billing-tickets"),
    (["severity=critical", "team=nobody-knows"], "platform-pager"),
])
def test_routes(labels, receiver):
    config = DEPLOY / "alertmanager/alertmanager.yml"
    done = run("amtool", "config", "routes", "test", f"--config.file={config}", *labels)
    assert (done.returncode, done.stdout.strip()) == (0, receiver), done.stderr


def test_alertmanager():
    config = DEPLOY / "alertmanager/alertmanager.yml"
    done = run("amtool", "check-config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r"Pgleader\w+", config.read_text()))
    assert named and named <= alert_names()


def test_the_deployment_starts(tmp_path):
    """The program takes the arguments and the configuration that the manifests give it."""
    config = tmp_path / "pgleader.yml"
    config.write_text(manifest("ConfigMap")["data"]["pgleader.yml"])
    arguments = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--config.file=/etc/pgleader/config/pgleader.yml" in arguments
    arguments = [a.replace("/etc/pgleader/config/pgleader.yml", str(config)) for a in arguments]
    done = run(program("pgleader_exporter"), *arguments, "--check-config")
    assert done.returncode == 0, done.stderr


def test_the_manifests_fit_each_other():
    """Who selects whom, which port, which volume: a name that is not the other's is found by nobody."""
    deployment, service = manifest("Deployment")["spec"], manifest("Service")
    pod = deployment["template"]["spec"]
    container, = pod["containers"]
    labels = deployment["template"]["metadata"]["labels"]
    monitor, = manifests("servicemonitor.yaml")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert deployment["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert {p["port"] for p in monitor["spec"]["endpoints"]} == {p["name"] for p in service["spec"]["ports"]}
    assert {p["targetPort"] for p in service["spec"]["ports"]} == set(ports)
    assert f"--web.listen-address=:{ports['metrics']}" in container["args"]
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in container["volumeMounts"]}
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    server, = yaml.safe_load(manifest("ConfigMap")["data"]["pgleader.yml"])["servers"]
    folder, _, file = server["password_file"].rpartition("/")
    assert folder in mounts and file in manifest("Secret")["stringData"]


def test_the_image_has_the_libraries():
    """Each library that the program names comes with a package that the image has."""
    words = (DEPLOY / "kubernetes/Containerfile").read_text()
    listed = set(re.search(r"--no-install-recommends ([^&]+)&&", words)[1].replace("\\\n", " ").split())
    needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", program("pgleader_exporter")).stdout)
    paths = dict(re.findall(r"(\S+) => (\S+)", run("ldd", program("pgleader_exporter")).stdout))
    assert len(needed) > 5
    sought = [paths[name].rpartition("/")[2] for name in needed if not re.match(r"libc\.so|lib(asan|ubsan|tsan|gcc_s|m)\.", name)]
    found = run("dpkg", "-S", *[f"*/{name}" for name in sought]).stdout.splitlines()
    for name in sought:
        owners = {line.split(":")[0] for line in found if line.endswith(f"/{name}")}
        assert owners & listed, f"{name}: {owners}"


def test_what_is_generated_is_new():
    done = run(ROOT / "scripts/update-deploy", "--check")
    assert done.returncode == 0, done.stderr


def test_generated_rules_are_the_rules():
    """The operator's object holds the same rules, as YAML reads them."""
    rule, = manifests("prometheusrule.yaml")
    assert rule["kind"] == "PrometheusRule" and rule["spec"] == yaml.safe_load(RULES.read_text())
    dashboards, = manifests("dashboards.yaml")
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    for name, data in dashboards["data"].items():
        assert data.strip() == (ROOT / "dashboards" / name).read_text().strip()
    assert len(dashboards["data"]) == 2
