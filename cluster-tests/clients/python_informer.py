"""An informer over the ecosystem's Python client, unmodified: it lists once, watches, and lists anew where a version has expired.

Wants KUBECONFIG, the package `kubernetes`, the namespace as its argument. It goes on over servers that are away, until it has seen a
config map called `last`. Then it prints how often it listed and what it holds, as JSON, and `done`.
"""

import json
import sys
import time

import urllib3
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

PAUSE = 0.2


def follow(core, namespace, held, version):
    """Watches from `version` until the stream ends; returns the newest version. A version that has expired is None."""
    stream = watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=20)
    try:
        for event in stream:
            found = event["object"].metadata
            version = found.resource_version
            if event["type"] == "DELETED":
                held.pop(found.name, None)
            else:
                held[found.name] = version
            if "last" in held:
                break
    except ApiException as error:
        if error.status == 410:
            return None
        time.sleep(PAUSE)
    except urllib3.exceptions.HTTPError:
        time.sleep(PAUSE)
    return version


def main():
    namespace = sys.argv[1]
    config.load_kube_config()
    core = client.CoreV1Api()
    lists, held, version = 0, {}, None
    while "last" not in held:
        if version is not None:
            version = follow(core, namespace, held, version)
            continue
        try:
            listed = core.list_namespaced_config_map(namespace)
        except (ApiException, urllib3.exceptions.HTTPError):
            time.sleep(PAUSE)
            continue
        lists += 1
        held = {item.metadata.name: item.metadata.resource_version for item in listed.items}
        version = listed.metadata.resource_version
        print(f"listed {len(held)}", flush=True)
    print(json.dumps({"lists": lists, "held": held}))
    print("done")


main()
