"""The ecosystem's Python client, unmodified, through what programs do with it.

Wants KUBECONFIG and the package `kubernetes`. Each step asserts what it needs; the last line printed is `done`.
"""

import datetime
import json
import os
import tempfile
import threading
import time
import urllib.parse

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

NAMESPACE = "python-client"
AUTHORITY = "kube-root-ca.crt"
PATCHES = {
    "application/json-patch+json": [{"op": "replace", "path": "/data/colour", "value": "json"}],
    "application/merge-patch+json": {"data": {"colour": "merge"}},
    "application/strategic-merge-patch+json": {"data": {"colour": "strategic"}},
}


def config_map(name, colour="red", labels=None):
    metadata = client.V1ObjectMeta(name=name, labels=labels)
    return client.V1ConfigMap(metadata=metadata, data={"colour": colour})


def expect_error(status, reason, call, *arguments, **options):
    """Calls, and wants an ApiException whose body is a Status with this reason; gives its details."""
    try:
        call(*arguments, **options)
    except ApiException as error:
        document = json.loads(error.body)
        told = (error.status, document["kind"], document["code"], document["reason"])
        assert told == (status, "Status", status, reason), error
        return document.get("details")
    raise AssertionError(f"{call.__name__} should fail with {status} {reason}")


def objects(core):
    """Create, get, list in pages, replace with a stale version, errors."""
    for number in range(25):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"m{number:02}", labels={"odd": str(number % 2)}))
    assert core.read_namespaced_config_map("m07", NAMESPACE).data == {"colour": "red"}
    names, token, pages, versions = [], None, 0, set()
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=10, _continue=token, label_selector="odd")
        names += [item.metadata.name for item in page.items]
        versions.add(page.metadata.resource_version)
        pages, token = pages + 1, page.metadata._continue
        if not token:
            break
    assert names == [f"m{number:02}" for number in range(25)] and pages == 3 and len(versions) == 1
    stale = core.read_namespaced_config_map("m00", NAMESPACE)
    fresh = core.read_namespaced_config_map("m00", NAMESPACE)
    fresh.data = {"colour": "green"}
    core.replace_namespaced_config_map("m00", NAMESPACE, fresh)
    expect_error(409, "Conflict", core.replace_namespaced_config_map, "m00", NAMESPACE, stale)
    expect_error(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("m00"))
    missing = expect_error(404, "NotFound", core.read_namespaced_config_map, "nope", NAMESPACE)
    assert missing == {"name": "nope", "kind": "configmaps"}
    invalid = expect_error(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, config_map("Not A Name"))
    assert invalid["causes"][0]["field"] == "metadata.name"
    expect_error(400, "BadRequest", core.list_namespaced_config_map, NAMESPACE, _continue="garbage")


def patches(core):
    """Every patch type, and server-side apply with a conflict."""
    for media_type, body in PATCHES.items():
        patched = core.patch_namespaced_config_map("m01", NAMESPACE, body, _content_type=media_type)
        assert patched.data["colour"] in media_type, (media_type, patched.data)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k": "1"}}
    apply = dict(field_manager="one", _content_type="application/apply-patch+yaml")
    core.patch_namespaced_config_map("applied", NAMESPACE, applied, **apply)
    applied["data"]["k"] = "2"
    other = dict(apply, field_manager="two")
    conflict = expect_error(409, "Conflict", core.patch_namespaced_config_map, "applied", NAMESPACE, applied, **other)
    assert conflict["causes"][0]["reason"] == "FieldManagerConflict"
    forced = core.patch_namespaced_config_map("applied", NAMESPACE, applied, force=True, **other)
    managers = {entry.manager: entry.operation for entry in forced.metadata.managed_fields}
    assert forced.data == {"k": "2"} and managers["two"] == "Apply", managers


def watches(core):
    """A watch from a list's version, resumed from the last event's version, and one that is too far ahead."""
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("watched"))
    core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"colour": "blue"}})
    core.delete_namespaced_config_map("watched", NAMESPACE)
    assert follow(core, start, 1) == ["ADDED watched"]
    assert follow(core, start, 3) == ["ADDED watched", "MODIFIED watched", "DELETED watched"]
    first = next(iter(watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=10)))
    resumed = follow(core, first["object"].metadata.resource_version, 2)
    assert resumed == ["MODIFIED watched", "DELETED watched"], resumed
    ahead = str(int(start) + 1_000_000)
    expect_error(504, "Timeout", core.list_namespaced_config_map, NAMESPACE, resource_version=ahead)


def follow(core, version, count):
    stream, seen = watch.Watch(), []
    for event in stream.stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=10):
        seen.append(f"{event['type']} {event['object'].metadata.name}")
        if len(seen) == count:
            stream.stop()
    return seen


def informer(core):
    """The client's informer: synced, then told of a change and a removal."""
    try:
        from kubernetes.informer import SharedInformer
    except ImportError:
        print("this release of the client has no informer")
        return
    told, arrived = [], threading.Condition()

    def tell(kind):
        def handler(item):
            with arrived:
                told.append((kind, item.metadata.name))
                arrived.notify_all()
        return handler

    running = SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE, label_selector="odd=1")
    for kind in ["ADDED", "MODIFIED", "DELETED"]:
        running.add_event_handler(kind, tell(kind))
    running.start()
    with arrived:
        assert arrived.wait_for(lambda: len(told) >= 12, 20), told
    core.patch_namespaced_config_map("m03", NAMESPACE, {"data": {"colour": "seen"}})
    core.patch_namespaced_config_map("m05", NAMESPACE, {"metadata": {"labels": {"odd": "0"}}})
    with arrived:
        wanted = {("MODIFIED", "m03"), ("DELETED", "m05")}
        assert arrived.wait_for(lambda: wanted <= set(told), 20), told
    assert running.cache.get_by_key(f"{NAMESPACE}/m03").data["colour"] == "seen"
    # It stops between events, so that it needs one.
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    core.patch_namespaced_config_map("m03", NAMESPACE, {"data": {"colour": "last"}})
    stopper.join(20)


def election():
    """Two candidates for one lease: the first leads, and the second waits as long as it renews."""
    led = [threading.Event(), threading.Event()]

    def candidate(number):
        lock = LeaseLock("leader", NAMESPACE, f"candidate-{number}")
        started, stopped = led[number].set, lambda: None
        settings = electionconfig.Config(
            lock, lease_duration=5, renew_deadline=4, retry_period=1, onstarted_leading=started, onstopped_leading=stopped)
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()

    candidate(0)
    assert led[0].wait(20), "nobody leads"
    candidate(1)
    assert not led[1].wait(3), "two lead"
    lease = client.CoordinationV1Api().read_namespaced_lease("leader", NAMESPACE)
    assert lease.spec.holder_identity == "candidate-0" and lease.spec.lease_duration_seconds == 5


def events(core):
    """An event of the events group is read through the core group, too."""
    about = client.V1ObjectReference(kind="ConfigMap", namespace=NAMESPACE, name="m01")
    client.EventsV1Api().create_namespaced_event(NAMESPACE, client.EventsV1Event(
        metadata=client.V1ObjectMeta(name="told.1"), regarding=about, reason="Tested", note="hello", type="Normal",
        action="Testing", event_time=datetime.datetime.now(datetime.timezone.utc),
        reporting_controller="example.com/test", reporting_instance="test-1"))
    found = core.list_namespaced_event(NAMESPACE, field_selector="reason=Tested").items
    assert [event.message for event in found] == ["hello"], found


def collections(core):
    """Delete a selection, then all."""
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="odd=0", dry_run="All")
    assert len(core.list_namespaced_config_map(NAMESPACE, label_selector="odd=0").items) == 14
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="odd=0")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="odd=0").items
    assert len(core.list_namespaced_config_map(NAMESPACE, label_selector="odd=1").items) == 11
    core.delete_collection_namespaced_config_map(NAMESPACE)
    left = [item.metadata.name for item in core.list_namespaced_config_map(NAMESPACE).items]
    assert set(left) <= {AUTHORITY}, left  # which comes back


def in_cluster(core):
    """What a pod does: a token from a file and the authority of its namespace, with the rights of its account alone."""
    core.create_namespaced_service_account(NAMESPACE, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot")))
    rbac, group = client.RbacAuthorizationV1Api(), "rbac.authorization.k8s.io"
    metadata = client.V1ObjectMeta(name="robot")
    rules = [client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])]
    rbac.create_namespaced_role(NAMESPACE, client.V1Role(metadata=metadata, rules=rules))
    rbac.create_namespaced_role_binding(NAMESPACE, client.V1RoleBinding(
        metadata=metadata, role_ref=client.V1RoleRef(api_group=group, kind="Role", name="robot"),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name="robot", namespace=NAMESPACE)]))
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    authority = core.read_namespaced_config_map(AUTHORITY, NAMESPACE).data["ca.crt"]
    server = urllib.parse.urlsplit(core.api_client.configuration.host)
    environ = {"KUBERNETES_SERVICE_HOST": server.hostname, "KUBERNETES_SERVICE_PORT": str(server.port)}
    with tempfile.TemporaryDirectory() as folder:
        files = {"token": token, "ca.crt": authority}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        own = client.Configuration()
        InClusterConfigLoader(
            token_filename=os.path.join(folder, "token"), cert_filename=os.path.join(folder, "ca.crt"), environ=environ,
        ).load_and_set(own)
        robot = client.ApiClient(own)
        told = client.AuthenticationV1Api(robot).create_self_subject_review(client.V1SelfSubjectReview()).status.user_info
        assert told.username == f"system:serviceaccount:{NAMESPACE}:robot", told
        maps = client.CoreV1Api(robot)
        assert AUTHORITY in [item.metadata.name for item in maps.list_namespaced_config_map(NAMESPACE).items]
        expect_error(403, "Forbidden", maps.list_namespaced_secret, NAMESPACE)
        core.delete_namespaced_service_account("robot", NAMESPACE)
        expect_error(401, "Unauthorized", maps.list_namespaced_config_map, NAMESPACE)


def custom_kinds():
    """A definition, its objects through the interface for custom objects, and through the dynamic client."""
    extensions, custom = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    group, plural = "python.example.com", "robots"
    schema = client.V1JSONSchemaProps(type="object", properties={
        "spec": client.V1JSONSchemaProps(type="object", required=["arms"], properties={
            "arms": client.V1JSONSchemaProps(type="integer", minimum=0),
            "colour": client.V1JSONSchemaProps(type="string", default="grey")}),
        "status": client.V1JSONSchemaProps(type="object", properties={"arms": client.V1JSONSchemaProps(type="integer")})})
    version = client.V1CustomResourceDefinitionVersion(
        name="v1", served=True, storage=True, schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
        subresources=client.V1CustomResourceSubresources(status={}))
    names = client.V1CustomResourceDefinitionNames(plural=plural, kind="Robot", singular="robot")
    spec = client.V1CustomResourceDefinitionSpec(group=group, scope="Namespaced", names=names, versions=[version])
    name = f"{plural}.{group}"
    extensions.create_custom_resource_definition(client.V1CustomResourceDefinition(metadata=client.V1ObjectMeta(name=name), spec=spec))
    for event in watch.Watch().stream(extensions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=30):
        conditions = event["object"].status and event["object"].status.conditions or []
        if any(condition.type == "Established" and condition.status == "True" for condition in conditions):
            break
    robot = lambda name, arms: {"apiVersion": f"{group}/v1", "kind": "Robot", "metadata": {"name": name}, "spec": {"arms": arms}}
    made = custom.create_namespaced_custom_object(group, "v1", NAMESPACE, plural, robot("a", 2))
    assert made["spec"] == {"arms": 2, "colour": "grey"} and made["metadata"]["generation"] == 1, made
    details = expect_error(422, "Invalid", custom.create_namespaced_custom_object, group, "v1", NAMESPACE, plural, robot("b", -1))
    assert details["causes"][0]["field"] == "spec.arms", details
    told = custom.patch_namespaced_custom_object_status(group, "v1", NAMESPACE, plural, "a", {"status": {"arms": 2}, "spec": {"arms": 9}})
    assert (told["spec"]["arms"], told["status"]) == (2, {"arms": 2}), told
    assert [item["metadata"]["name"] for item in custom.list_cluster_custom_object(group, "v1", plural)["items"]] == ["a"]
    robots = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=f"{group}/v1", kind="Robot")
    assert robots.get(name="a", namespace=NAMESPACE).spec.colour == "grey"
    body = {**robot("c", 1), "metadata": {"name": "c", "labels": {"made": "dynamically"}}}
    assert robots.server_side_apply(body=body, namespace=NAMESPACE, field_manager="tests").metadata.labels.made == "dynamically"
    assert [item.metadata.name for item in robots.get(namespace=NAMESPACE, label_selector="made").items] == ["c"]
    robots.delete(name="c", namespace=NAMESPACE)
    custom.delete_namespaced_custom_object(group, "v1", NAMESPACE, plural, "a")
    extensions.delete_custom_resource_definition(name)


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    steps = [
        lambda: objects(core), lambda: patches(core), lambda: watches(core), lambda: informer(core), election,
        lambda: events(core), lambda: collections(core), lambda: in_cluster(core),
        custom_kinds,
    ]
    for step, name in zip(steps, ["objects", "patches", "watches", "informer", "election", "events", "collections", "in cluster", "custom kinds"]):
        started = time.monotonic()
        step()
        print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
    print("done")


if __name__ == "__main__":
    main()
