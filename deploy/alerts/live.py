#!/usr/bin/env python3
"""Evaluates every alert, recorded series and panel against a running cluster, by a Prometheus of its own.

    deploy/alerts/live.py --node https://127.0.0.1:6443 --token TOKEN [--scheduler https://127.0.0.1:10259] [--seconds 60]
                          [--expect-firing OrchNoLeader,...]

Prints each panel without data and each metric of a rule that no target exports, and the alerts that are pending or fire. Fails for a
metric or panel that is missing and not among those that only faults and unused features bring about (ABSENT), for an alert that fires
and is not expected, and for an expected one that is neither pending nor firing. Needs `prometheus` (Debian's package) and nothing else;
certificates of the targets are not verified.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parent
DASHBOARDS = FOLDER.parent / "dashboards"
WORD = re.compile(r"\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()")
NOT_NAMES = re.compile(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)')
KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf"}

# Series that are there only after a fault, or with a feature that a small cluster does not use, and why.
ABSENT = {
    "aggregator_unavailable_apiservice": "no server is aggregated",
    "apiserver_admission_webhook_admission_duration_seconds": "no webhook is called",
    "apiserver_client_certificate_expiration_seconds": "clients came with tokens",
    "apiserver_flowcontrol_rejected_requests_total": "flow control refuses nothing",
    "apiserver_flowcontrol_request_wait_duration_seconds": "nothing waited",
    "apiserver_longrunning_requests": "no watch is open",
    "apiserver_request_terminations_total": "no request was ended early",
    "orch_admission_webhook_dead": "no webhook is dead",
    "orch_backup": "no backup is scheduled",
    "orch_garbage_undecided_dependents": "every absent owner was seen before",
    "rest_client_request": "the loops have sent nothing",
    "workqueue_queue_duration_seconds": "no loop has had work",
}

# The same where no scheduler is scraped.
WITHOUT_SCHEDULER = {
    "leader_election_master_status": "no scheduler runs",
    "scheduler_": "no scheduler runs",
}


def is_excused(names, prometheus):
    """Whether a query of these series may be without data: those that are absent for a known reason explain it, and no other is absent."""
    absent = tuple([*ABSENT, *([] if prometheus.has_scheduler else WITHOUT_SCHEDULER)])
    others = [name for name in names if not name.startswith(absent)]
    return len(others) < len(names) and all(prometheus.has_data(name) for name in others)


def names_in(expression):
    return {word for word in WORD.findall(NOT_NAMES.sub(" ", expression)) if word not in KEYWORDS}


class Prometheus:
    def __init__(self, nodes, schedulers, token, port, folder, rules):
        """Reads the servers at these URLs each second and evaluates the rules of these files."""
        self.url = f"http://127.0.0.1:{port}"
        self.has_scheduler = bool(schedulers)
        scrapes = []
        for job, urls in (("orch", nodes), ("orch-scheduler", schedulers)):
            hosts = [urllib.parse.urlsplit(url).netloc for url in urls]
            if hosts:
                scrapes.append({
                    "job_name": job, "scheme": "https", "scrape_interval": "1s", "scrape_timeout": "1s",
                    "tls_config": {"insecure_skip_verify": True},
                    "authorization": {"credentials": token}, "static_configs": [{"targets": hosts}],
                })
        config = {"global": {"evaluation_interval": "1s"}, "rule_files": rules, "scrape_configs": scrapes}
        path = folder / "prometheus.yml"
        # JSON is YAML.
        path.write_text(json.dumps(config))
        flags = [f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        self.process = subprocess.Popen(["prometheus", *flags])

    def end(self):
        self.process.terminate()
        self.process.wait()

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def has_data(self, expression):
        return bool(self.get("query", query=expression)["result"])

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                sys.exit("prometheus has ended")
            time.sleep(1)


def missing(prometheus):
    """Names of rules and panels without data, each with whether that is to be expected."""
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            for name in sorted(names_in(rule["query"])):
                if not prometheus.has_data(name):
                    yield f"{rule['name']}: {name}", is_excused([name], prometheus)
            if rule["type"] == "recording" and rule.get("lastError"):
                yield f"{rule['name']}: {rule['lastError']}", False
    for path in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
                if not prometheus.has_data(expression):
                    yield f"{path.name}: {panel['title']}", is_excused(names_in(expression), prometheus)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="append", required=True)
    parser.add_argument("--scheduler", action="append", default=[])
    parser.add_argument("--token", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--port", type=int, default=19090)
    parser.add_argument("--expect-firing", default="")
    arguments = parser.parse_args()
    expected = set(filter(None, arguments.expect_firing.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        rules = [str(FOLDER / name) for name in ("orch.yaml", "recording.yaml")]
        prometheus = Prometheus(
            arguments.node, arguments.scheduler, arguments.token, arguments.port, pathlib.Path(folder), rules)
        try:
            prometheus.wait(arguments.seconds)
            down = [target["lastError"] for target in prometheus.get("targets")["activeTargets"] if target["health"] != "up"]
            found = list(missing(prometheus))
            alerts = {(alert["labels"]["alertname"], alert["state"]) for alert in prometheus.get("alerts")["alerts"]}
        finally:
            prometheus.end()
    for error in down:
        print(f"target down: {error}")
    for text, is_expected in found:
        print(f"no data{' (expected)' if is_expected else ''}: {text}")
    for name, state in sorted(alerts):
        print(f"{state}: {name}")
    bad = [text for text, is_expected in found if not is_expected]
    unexpected = {name for name, state in alerts if state == "firing"} - expected - {"OrchSchedulerAbsent"}
    absent = expected - {name for name, _ in alerts}
    print(f"{len(bad)} queries without data, {len(unexpected)} unexpected alerts, {len(absent)} expected alerts absent")
    sys.exit(1 if bad or unexpected or absent else 0)


if __name__ == "__main__":
    main()
