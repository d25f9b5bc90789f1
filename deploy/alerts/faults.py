#!/usr/bin/env python3
"""Starts three members and a scheduler, evaluates every panel and rule against them, and makes alerts fire by their faults.

    deploy/alerts/faults.py --programs target/release [--factor 60] [--only OrchMemberDown,...] [--keep DIR]

The cluster lies on 127.0.41.1 to 127.0.41.3 (ports 6443, 6444 and 10259), its data in a temporary folder. Prometheus reads the rules with each
`for`, each window and each age in hours divided by the factor and bounded by a minute or two, because a backup of yesterday cannot be made:
thresholds in bytes, ratios and days stay. Certificates that end soon are signed by the cluster's own authority with openssl; a slow disk is `strace` (which has to be there and
allowed to trace) that delays `fdatasync` of the members. Prints each query without data, and for each fault the alerts that it made fire and
those that it should have and did not; fails for the latter, and for a query without data that neither a fault nor an unused feature explains. Queries
that had no data at any time and alerts that fire before the first fault are printed, to be read.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import live

NAMES = ("a", "b", "c")
ADDRESS = {name: f"127.0.41.{at}" for at, name in enumerate(NAMES, 1)}
SCHEDULER = "127.0.41.1:10259"
TOKEN = "live"
# A window has to hold some scrapes, one each second; the longest bounds the time until an old value is out of it.
WINDOW_SECONDS = (30, 60)
# The longest `for`, and the longest age of a backup.
PENDING_SECONDS_MAX = 15
AGE_SECONDS_MAX = 100
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Alerts that no fault here brings about, and why.
NOT_MADE = {
    "OrchMembersDiffer": "needs a fault in memory or on disk that checksums do not see; simulations plant it",
    "OrchClockSkew": "needs members with clocks of their own, which one machine has not",
    "OrchMemberLags": "needs ten thousand entries that a member which answers does not take: one that stands still is down, and one that is slow gets a snapshot",
    "OrchLoopStuck": "needs a loop that works on one object for ten minutes: each wait of a loop ends within half a minute",
    "OrchGarbageUndecided": "needs an aggregated server that has lost an owner; tests of the garbage collector count its dependents",
    "OrchSchedulerStuck": "needs a scheduler that answers, holds its lease and is stuck: one that stands still does not answer",
    "OrchSchedulerErrors": "needs an extender or a volume plugin that fails, and none is set up here",
}


def seconds(text):
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


def quicker(rules, factor):
    """The text of a file of rules with its times divided by the factor, and bounded."""
    def bounded(number, least, most):
        return min(most, max(least, number // factor))
    rules = re.sub(r"\[((?:\d+[smhd])+)\]", lambda match: f"[{bounded(seconds(match[1]), *WINDOW_SECONDS)}s]", rules)
    rules = re.sub(r"(?m)^(\s+for: )((?:\d+[smhd])+)$",
                   lambda match: f"{match[1]}{bounded(seconds(match[2]), 0, PENDING_SECONDS_MAX)}s", rules)
    # Ages in hours, and the time that a growth is looked ahead; ages of certificates and keys are in days and stay.
    return re.sub(r"\b(?:(\d+) \* )?3600\b", lambda match: str(bounded(3600 * int(match[1] or 1), 1, AGE_SECONDS_MAX)), rules)


def document(body):
    """The document that a body is; its text where it is none, as of some refusals and of watches."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


class Process:
    def __init__(self, log, *command):
        self.log = log.open("ab")
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=self.log)

    @property
    def pid(self):
        return self.process.pid

    def send(self, what):
        self.process.send_signal(what)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.log.close()


class Cluster:
    def __init__(self, programs, folder):
        self.orch, self.scheduler_program = programs / "orch", programs / "scheduler"
        self.folder, self.certs = folder, folder / "certs"
        self.members, self.scheduler = {}, None
        (folder / "tokens").write_text(f'{TOKEN},admin,1,"system:masters"\nflood,flooder,2,"flooders"\n')
        self.run("certs", "init", "--brand", "kubernetes", "--dir", self.certs, *(f"--member={name}={ADDRESS[name]}" for name in NAMES))
        key = self.certs / "service-account.key"
        old = time.time() - 500 * 86400
        os.utime(key, (old, old))

    def found(self):
        for name in NAMES:
            self.start(name)
        self.run("cluster", "found", "--kubeconfig", self.certs / "admin.conf")
        self.start_scheduler()

    def run(self, *arguments):
        done = subprocess.run([str(part) for part in (self.orch, *arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"orch {arguments}: {done.stdout}{done.stderr}")

    def start(self, name, *more):
        backups = self.folder / "backups"
        backups.mkdir(exist_ok=True)
        flags = [f"--name={name}", f"--certs-dir={self.certs}", f"--data-dir={self.folder / name}", f"--bind-address={ADDRESS[name]}",
                 "--initial-cluster=" + ",".join(f"{other}={ADDRESS[other]}:6444" for other in NAMES),
                 f"--token-auth-file={self.folder / 'tokens'}", "--brand=kubernetes", "--state-quota=8Mi",
                 "--max-requests-inflight=8", "--max-mutating-requests-inflight=4"]
        if name == "a":
            flags += ["--backup-schedule=1m", f"--backup-dir={backups}", "--backup-s3=s3://bucket/prefix",
                      "--backup-s3-endpoint=http://127.0.0.1:9", "--backup-s3-path-style", f"--backup-s3-credentials-file={self.folder / 's3'}"]
            (self.folder / "s3").write_text("aws_access_key_id = a\naws_secret_access_key = b\n")
        self.members[name] = Process(self.folder / f"{name}.log", self.orch, "serve", *flags, *more)

    def start_scheduler(self):
        admin = self.certs / "admin.conf"
        self.scheduler = Process(
            self.folder / "scheduler.log", self.scheduler_program, "--brand=kubernetes", f"--kubeconfig={self.certs / 'scheduler.conf'}",
            f"--authentication-kubeconfig={admin}", f"--authorization-kubeconfig={admin}", f"--cert-dir={self.folder / 'scheduler'}",
            f"--bind-address={SCHEDULER.split(':')[0]}", "--secure-port=10259")

    def kill(self, name):
        self.members.pop(name).kill()

    def end(self):
        for process in [*self.members.values(), *filter(None, [self.scheduler])]:
            process.kill()

    def ask(self, method, path, body=None, member=None, token=TOKEN, timeout=10, context=None):
        """The status and the document of an answer; 0 and none where there is no answer."""
        context = context or ssl._create_unverified_context()
        for name in [member] if member else list(self.members):
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            request = urllib.request.Request(
                f"https://{ADDRESS[name]}:6443{path}", method=method, data=None if body is None else json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": kind} if token else {})
            try:
                with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
                    return answer.status, document(answer.read())
            except urllib.error.HTTPError as error:
                return error.code, document(error.read())
            except OSError:
                continue
        return 0, None

    def make(self, path, body):
        status, answer = self.ask("POST", path, body)
        if status not in (200, 201, 409):
            sys.exit(f"POST {path}: {status} {answer}")


MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name, size=10):
    return {"metadata": {"name": name}, "data": {"key": "x" * size}}


class Traffic:
    """Writes and reads of all kinds, a few in each second, until it is stopped."""

    def __init__(self, cluster):
        self.cluster, self.is_stopped = cluster, False
        self.pool = concurrent.futures.ThreadPoolExecutor(8)
        self.running = [self.pool.submit(self.write, name) for name in NAMES] + [self.pool.submit(self.watch)]

    def write(self, member):
        at = 0
        while not self.is_stopped:
            at += 1
            name = f"traffic-{member}-{at % 20}"
            self.cluster.ask("POST", MAPS, config_map(name), member, timeout=3)
            self.cluster.ask("GET", f"{MAPS}/{name}", None, member, timeout=3)
            self.cluster.ask("GET", MAPS, None, member, timeout=3)
            self.cluster.ask("PATCH", f"{MAPS}/{name}", {"data": {"at": str(at)}}, member, timeout=3)
            self.cluster.ask("DELETE", f"{MAPS}/{name}", None, member, timeout=3)
            time.sleep(0.1)

    def watch(self):
        while not self.is_stopped:
            self.cluster.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=3", timeout=5)

    def stop(self):
        self.is_stopped = True
        concurrent.futures.wait(self.running)


def prepare(cluster):
    """Objects that every series needs: a node and a pod for the scheduler."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    cluster.make("/api/v1/nodes", {"metadata": {"name": "one"}, "status": {"allocatable": capacity, "capacity": capacity}})
    cluster.ask("PATCH", "/api/v1/nodes/one/status", {"status": {"allocatable": capacity, "capacity": capacity}})
    cluster.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    # No kubelet says that the node is ready.
    tolerations = [{"operator": "Exists"}]
    for name, cpu in (("one", "1"), ("two", "1"), ("too-large", "100")):
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        cluster.make("/api/v1/namespaces/default/pods", {
            "metadata": {"name": name}, "spec": {"containers": [container], "tolerations": tolerations}})


@contextlib.contextmanager
def killed(cluster, *names):
    for name in names:
        cluster.kill(name)
    yield
    for name in names:
        cluster.start(name)


@contextlib.contextmanager
def without_majority(cluster):
    """Two dead members, and clients of the third who wait for its answers: five seconds for most of them."""
    end = []
    def write(writer):
        while not end:
            cluster.ask("POST", MAPS, config_map(f"refused-{writer}"), "a", timeout=15)
    def read():
        while not end:
            cluster.ask("GET", MAPS, member="a", timeout=15)
    with killed(cluster, "b", "c"), concurrent.futures.ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(write, writer) for writer in range(3)] + [pool.submit(read) for _ in range(3)]
        try:
            yield
        finally:
            end.append(True)
        concurrent.futures.wait(asking)


@contextlib.contextmanager
def slow_disks(cluster, delay):
    """`delay` microseconds before each sync of all members."""
    tracers = [Process(cluster.folder / "strace.log", "strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e",
                       f"inject=fdatasync,fsync:delay_enter={delay}", "-p", member.pid) for member in cluster.members.values()]
    yield
    for tracer in tracers:
        tracer.send(signal.SIGTERM)
        tracer.process.wait()


@contextlib.contextmanager
def restarted(cluster, name, *flags):
    cluster.kill(name)
    cluster.start(name, *flags)
    yield
    cluster.kill(name)
    cluster.start(name)


@contextlib.contextmanager
def objects(cluster, *made):
    """Objects, each as the path of its collection and its document."""
    for path, body in made:
        cluster.make(path, body)
    yield
    for path, body in made:
        cluster.ask("DELETE", f"{path}/{body['metadata']['name']}")


def hook():
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    webhook = {"name": "dead.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": rules,
               "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:9/"}}
    return "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
        "metadata": {"name": "dead"}, "webhooks": [webhook]}


def aggregated():
    service = {"namespace": "default", "name": "nowhere", "port": 9}
    return "/apis/apiregistration.k8s.io/v1/apiservices", {
        "metadata": {"name": "v1.nowhere.example.com"},
        "spec": {"group": "nowhere.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                 "insecureSkipTLSVerify": True, "service": service}}


@contextlib.contextmanager
def asked_in_vain(cluster):
    """An aggregated server that is not there, which clients ask."""
    with objects(cluster, aggregated()), concurrent.futures.ThreadPoolExecutor(8) as pool:
        end = []
        def ask(member):
            while not end:
                cluster.ask("GET", "/apis/nowhere.example.com/v1/things", member=member, timeout=3)
        asking = [pool.submit(ask, name) for name in NAMES for _ in range(2)]
        try:
            yield
        finally:
            end.append(True)
        concurrent.futures.wait(asking)


@contextlib.contextmanager
def flooded(cluster):
    """A user who sends more than a level of one seat without a queue serves."""
    group = "/apis/flowcontrol.apiserver.k8s.io/v1"
    level = {"metadata": {"name": "tiny"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}}
    rule = {"subjects": [{"kind": "User", "user": {"name": "flooder"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}]}
    schema = {"metadata": {"name": "tiny"}, "spec": {
        "priorityLevelConfiguration": {"name": "tiny"}, "matchingPrecedence": 50, "rules": [rule]}}
    role = {"metadata": {"name": "flooder"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "flooder", "apiGroup": "rbac.authorization.k8s.io"}]}
    made = [(f"{group}/prioritylevelconfigurations", level), (f"{group}/flowschemas", schema),
            ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", role)]
    with objects(cluster, *made), concurrent.futures.ThreadPoolExecutor(24) as pool:
        end = []
        def ask():
            while not end:
                cluster.ask("POST", MAPS + "?dryRun=All", config_map("flood", 100_000), member="a", token="flood", timeout=3)
        asking = [pool.submit(ask) for _ in range(24)]
        try:
            yield
        finally:
            end.append(True)
        concurrent.futures.wait(asking)


@contextlib.contextmanager
def filled(cluster):
    """Objects that take most of the quota of the state, written over some seconds."""
    made = [(MAPS, config_map(f"fill-{at}", 200_000)) for at in range(37)]
    for path, body in made:
        cluster.make(path, body)
        time.sleep(0.3)
    yield
    for path, body in made:
        cluster.ask("DELETE", f"{path}/{body['metadata']['name']}")


@contextlib.contextmanager
def leaders_stopped(cluster):
    """Each leader in turn stands still until there is another one, for as long as it takes."""
    end = []
    def stop():
        while not end:
            _, answer = cluster.ask("GET", "/orch/v1/cluster", timeout=3)
            leader = cluster.members.get((answer or {}).get("leader"))
            if leader is None:
                time.sleep(0.5)
                continue
            leader.send(signal.SIGSTOP)
            try:
                # Others elect a leader within half a second of silence.
                time.sleep(2)
            finally:
                leader.send(signal.SIGCONT)
            time.sleep(1)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stop)
        try:
            yield
        finally:
            end.append(True)
        stopping.result()


@contextlib.contextmanager
def full_disk(cluster, name):
    """A member whose store shares its quota of the disk with a large file."""
    flags = ("--disk-quota=256Mi", "--disk-reserve=96Mi")
    large = cluster.folder / name / "store" / "large"
    with restarted(cluster, name, *flags):
        try:
            with large.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, 168 << 20)
            yield
        finally:
            large.unlink(missing_ok=True)


@contextlib.contextmanager
def ending_certificate(cluster):
    """A serving certificate of member c that began a hundred days ago and ends in an hour."""
    folder, own = cluster.folder / "authority", cluster.certs / "members" / "c"
    folder.mkdir(exist_ok=True)
    (folder / "index").write_text("")
    (folder / "serial").write_text("01\n")
    (folder / "config").write_text(
        f"[ca]\ndefault_ca=own\n[own]\ndatabase={folder / 'index'}\nserial={folder / 'serial'}\nnew_certs_dir={folder}\ndefault_md=sha256\n"
        f"policy=any\n[any]\ncommonName=supplied\n[names]\nsubjectAltName=IP:{ADDRESS['c']}\nextendedKeyUsage=serverAuth\n")
    def at(seconds):
        return time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
    kept = (own / "server.crt").read_bytes()
    subprocess.run(["openssl", "req", "-new", "-key", own / "server.key", "-subj", "/CN=c", "-out", folder / "request"], check=True)
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", folder / "config", "-extensions", "names", "-cert", cluster.certs / "ca.crt",
                    "-keyfile", cluster.certs / "ca.key", "-startdate", at(-100 * 86400), "-enddate", at(3600), "-in", folder / "request",
                    "-out", own / "server.crt"], check=True, capture_output=True)
    cluster.members["c"].send(signal.SIGHUP)
    yield
    (own / "server.crt").write_bytes(kept)
    cluster.members["c"].send(signal.SIGHUP)


@contextlib.contextmanager
def ending_client(cluster):
    """A client whose certificate ends in a day."""
    config = cluster.folder / "ann.conf"
    config.unlink(missing_ok=True)
    cluster.run("kubeconfig", "--user", "ann", "--certs-dir", cluster.certs, "--out", config, "--valid-for", "24h")
    user = json.loads(config.read_text())["users"][0]["user"]
    pair = [base64.b64decode(user[f"{name}-data"]) for name in ("client-certificate", "client-key")]
    (cluster.folder / "ann.pem").write_bytes(b"\n".join(pair))
    end = []
    def ask():
        while not end:
            for name in NAMES:
                context = ssl._create_unverified_context()
                context.load_cert_chain(cluster.folder / "ann.pem")
                cluster.ask("GET", "/version", member=name, token=None, context=context)
            time.sleep(0.2)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield
        finally:
            end.append(True)
        asking.result()


@contextlib.contextmanager
def no_backups(cluster):
    shutil.rmtree(cluster.folder / "backups")
    yield
    (cluster.folder / "backups").mkdir(exist_ok=True)


@contextlib.contextmanager
def no_scheduler(cluster):
    cluster.scheduler.kill()
    yield
    cluster.start_scheduler()


@contextlib.contextmanager
def lease_of_another(cluster):
    """Another holder of the scheduler's lease, who renews it, before the scheduler starts."""
    cluster.scheduler.kill()
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
    _, leases = cluster.ask("GET", path.rstrip("/"))
    names = [lease["metadata"]["name"] for lease in leases["items"] if "scheduler" in lease["metadata"]["name"]]
    end = []
    def renew():
        while not end:
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            for name in names:
                cluster.ask("PATCH", path + name, {"spec": {"holderIdentity": "another", "renewTime": now, "leaseDurationSeconds": 60}})
            time.sleep(1)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(renew)
        time.sleep(2)
        cluster.start_scheduler()
        try:
            yield
        finally:
            end.append(True)
        renewing.result()
    for name in names:
        cluster.ask("DELETE", path + name)


def faults(cluster):
    """The faults, each with the alerts that it makes fire."""
    return [
        ("an old service account key", contextlib.nullcontext(), ["OrchServiceAccountKeyOld"]),
        ("a bucket that does not answer", contextlib.nullcontext(), ["OrchBackupNotCopied"]),
        ("a folder of backups that is gone", no_backups(cluster), ["OrchBackupOverdue", "OrchBackupAbsent"]),
        ("a serving certificate that ends", ending_certificate(cluster), ["OrchCertificateExpiresSoon", "OrchCertificateExpiresNow"]),
        ("a client certificate that ends", ending_client(cluster), ["OrchClientCertificateExpiresSoon"]),
        ("a webhook that does not answer", objects(cluster, hook()), ["OrchWebhookDead"]),
        ("an aggregated server that is not there", asked_in_vain(cluster), ["OrchAggregatedServerUnavailable", "OrchApiTerminatedRequests"]),
        ("a flood of one user", flooded(cluster), ["OrchFlowRejects"]),
        ("a scheduler that is dead", no_scheduler(cluster), ["OrchSchedulerAbsent"]),
        ("a lease that another holds", lease_of_another(cluster), ["OrchSchedulerWithoutLeader"]),
        ("a state near its quota", filled(cluster), ["OrchStateNearQuota", "OrchStateGrows"]),
        ("disks that take most of a second", slow_disks(cluster, 700_000), ["OrchLogSyncSlow", "OrchProposalsSlow"]),
        ("disks that take three seconds", slow_disks(cluster, 3_000_000), ["OrchLogSyncVerySlow", "OrchReadsSlow"]),
        ("a disk without room", full_disk(cluster, "c"), ["OrchDiskShort", "OrchDiskTight"]),
        ("leaders that stand still", leaders_stopped(cluster), ["OrchLeaderChanges"]),
        ("a dead member", killed(cluster, "c"), ["OrchMemberDown", "OrchNodeUnreachable"]),
        ("two dead members", without_majority(cluster),
         ["OrchQuorumLost", "OrchNoLeader", "OrchProposalsFail", "OrchReadsFail", "OrchApiErrorBudgetBurn"]),
        ("no member at all", killed(cluster, *NAMES), ["OrchClusterDown"]),
    ]


def firing(prometheus):
    return {alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"}


def make_fire(prometheus, what, fault, wanted, patience, without_data):
    """The alerts of a fault that did not fire. What has data now is taken out of the queries without data."""
    began, left = time.monotonic(), set(wanted)
    with fault:
        while left and time.monotonic() - began < patience:
            prometheus.wait(1)
            left -= firing(prometheus)
        found = firing(prometheus)
        without_data &= {text for text, _ in live.missing(prometheus)}
    for name in wanted:
        print(f"{what}: {name} {'DOES NOT FIRE' if name in left else 'fires'}, after {time.monotonic() - began:.0f} s")
    others = sorted(found - set(wanted))
    if others:
        print(f"{what}: fire, too: {', '.join(others)}")
    sys.stdout.flush()
    return sorted(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--factor", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--patience", type=int, default=200)
    parser.add_argument("--port", type=int, default=19091)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for data and logs, which stay")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        rules = []
        for name in ("orch.yaml", "recording.yaml"):
            path = folder / name
            path.write_text(quicker((live.FOLDER / name).read_text(), arguments.factor))
            rules.append(str(path))
        cluster = Cluster(arguments.programs.resolve(), folder)
        stack.callback(cluster.end)
        cluster.found()
        prepare(cluster)
        traffic = Traffic(cluster)
        stack.callback(traffic.stop)
        nodes = [f"https://{ADDRESS[name]}:6443" for name in NAMES]
        prometheus = live.Prometheus(nodes, [f"https://{SCHEDULER}"], TOKEN, arguments.port, folder, rules)
        stack.callback(prometheus.end)
        prometheus.wait(arguments.seconds)
        found = list(live.missing(prometheus))
        bad, without_data = [text for text, is_expected in found if not is_expected], {text for text, _ in found}
        for text, is_expected in found:
            print(f"no data{' before the faults' if is_expected else ''}: {text}")
        print(f"before the faults fire: {', '.join(sorted(firing(prometheus))) or 'none'}")
        silent = []
        for what, fault, wanted in faults(cluster):
            if not only or only & set(wanted):
                silent += make_fire(prometheus, what, fault, wanted, arguments.patience, without_data)
        for text in sorted(without_data):
            print(f"no data at any time: {text}")
        for name, reason in NOT_MADE.items():
            print(f"not made to fire: {name}: {reason}")
    print(f"{len(bad)} queries without data, {len(silent)} alerts that their faults did not make fire")
    sys.exit(1 if bad or silent else 0)


if __name__ == "__main__":
    main()
