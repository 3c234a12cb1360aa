"""Limits of the API client, the driver's address, names and places of the election."""

import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import parse
from mooring.cli.binder import BinderFlags
from mooring.cli.csi_provisioner import ProvisionerFlags
from mooring.cli.election import namespace
from mooring.cli.process import Machine, usage
from mooring.cli.settings import RequestLimit, request_limit
from mooring.cli.tables import SidecarFlags
from tests.support.rows import each_row


def limit(*words):
    parsed = parse(SidecarFlags, words)
    return request_limit(parsed.flags, parsed.given)


@each_row(
    ("words", "expected"),
    [
        ([], RequestLimit()),
        (["--kube-api-qps=-1"], RequestLimit()),
        (["--kube-api-qps=-1", "--kube-api-burst=0"], RequestLimit()),
        (["--kube-api-qps=50"], RequestLimit(50.0, 10)),
        (["--kube-api-qps=50", "--kube-api-burst=1"], RequestLimit(50.0, 1)),
        (["--kube-api-qps=0", "--kube-api-burst=1"], RequestLimit(5.0, 1)),
        (["--kube-api-burst=20"], RequestLimit(5.0, 20)),
        (["--kube-api-qps=0"], RequestLimit(5.0, 10)),
        (["--kube-api-qps=0", "--kube-api-burst=0"], RequestLimit(5.0, 10)),
        (["--kube-api-qps=5"], RequestLimit(5.0, 10)),
    ],
)
def test_W1_there_is_no_bucket_unless_a_flag_asks_for_one(words, expected):
    assert expected == limit(*words)


@each_row("table", [BinderFlags, ProvisionerFlags])
def test_W1_the_usage_promises_no_limit_that_does_not_hold(table):
    flags = " ".join(usage(table, "x").split()).split(" --")
    told = [one for one in flags if one.startswith("kube-api")]
    assert 2 <= len(told)
    assert all("No limit, unless" in text and "(default" not in text for text in told)


def test_FL04_a_burst_of_zero_is_refused():
    with pytest.raises(ConfigError, match="burst is required"):
        limit("--kube-api-burst=0")


def election_flags(*words):
    return parse(SidecarFlags, words).flags


def test_LE05_the_namespace_is_the_pods(tmp_path):
    (tmp_path / "namespace").write_text(" from-file\n")
    pod = Machine(environ={"POD_NAMESPACE": "from-pod"}, service_account=tmp_path)
    assert "from-pod" == namespace(election_flags(), pod)
    assert "from-flag" == namespace(election_flags("--leader-election-namespace=from-flag"), pod)
    assert "from-file" == namespace(election_flags(), Machine(environ={"POD_NAMESPACE": ""}, service_account=tmp_path))
    assert "default" == namespace(election_flags(), Machine(environ={}, service_account=tmp_path / "none"))
