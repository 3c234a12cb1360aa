"""What a kubeconfig says is found; what is wrong with one is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client.config import InteractiveMode
from mooring.kube.client.kubeconfig import in_cluster, load
from tests.support.rows import each_row
from tests.unit.kube.certificates import authority_pem, client_pem, other_authority
from tests.unit.kube.kubeconfigs import SECRET, a_config, a_program, base64_of, written

PATH = {"PATH": "/usr/bin:/bin"}


def refused(path: str, environ: dict[str, str] | None = None, **arguments: Any) -> str:
    """The message with which a configuration is refused; no secret is in it."""
    with pytest.raises(ConfigError) as caught:
        load(path, PATH if environ is None else environ, **arguments)
    message = str(caught.value)
    assert SECRET not in message
    assert base64_of(SECRET.encode()) not in message
    assert caught.value.exit_code == 1
    return message


# -- what is read


def test_a_file_says_server_namespace_authority_and_token(tmp_path: Path) -> None:
    config = load(written(tmp_path, a_config()), {})
    assert ("https://127.0.0.1:6443", "storage", SECRET) == (config.server, config.namespace, config.user.token)
    assert config.tls.authority is not None
    assert authority_pem() == config.tls.authority.read()


def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    plugin: dict[str, Any] = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/true",
        "interactiveMode": "Never",
        "args": [SECRET],
    }
    plugin["env"] = [{"name": "A", "value": SECRET}]
    users: list[dict[str, Any]] = [{"token": SECRET}, {"username": "a", "password": SECRET}, {"exec": plugin}]
    for user in users:
        config = load(written(tmp_path, a_config(user=user, cluster={"proxy-url": f"http://a:{SECRET}@proxy"})), PATH)
        assert SECRET not in repr(config)
    certificate, key = client_pem()
    user = {"client-certificate-data": base64_of(certificate), "client-key-data": base64_of(key)}
    assert "PRIVATE" not in repr(load(written(tmp_path, a_config(user=user)), {}))


def test_the_namespace_is_default_unless_the_context_names_one(tmp_path: Path) -> None:
    contexts = [{"name": "here", "context": {"cluster": "c"}}]
    config = load(written(tmp_path, a_config(contexts=contexts)), {})
    assert ("default", "") == (config.namespace, config.user.token)


def test_another_context_can_be_asked_for(tmp_path: Path) -> None:
    contexts = [
        {"name": "here", "context": {"cluster": "gone"}},
        {"name": "there", "context": {"cluster": "c", "namespace": "x"}},
    ]
    assert load(written(tmp_path, a_config(contexts=contexts)), {}, context="there").namespace == "x"


def test_relative_paths_start_where_the_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kube"
    folder.mkdir()
    (folder / "ca.pem").write_bytes(authority_pem())
    certificate, key = client_pem()
    (folder / "client.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    (folder / "token").write_text("tok\n")
    cluster = {"certificate-authority-data": None, "certificate-authority": "ca.pem"}
    user = {"client-certificate": "client.pem", "client-key": "../kube/key.pem", "tokenFile": "token"}
    written(folder, a_config(cluster=cluster, user=user))
    monkeypatch.chdir(tmp_path)
    config = load("kube/config", {})
    assert config.tls.authority is not None
    assert config.tls.key is not None
    assert authority_pem() == config.tls.authority.read()
    assert key == config.tls.key.read()
    assert str(folder / "token") == config.user.token_file


def test_data_goes_before_a_file(tmp_path: Path) -> None:
    config = load(written(tmp_path, a_config(cluster={"certificate-authority": "/does/not/exist"})), {})
    assert config.tls.authority is not None
    assert config.tls.authority.path == ""


def test_tls_may_be_unchecked_or_checked_against_another_name(tmp_path: Path) -> None:
    unchecked = load(
        written(tmp_path, a_config(cluster={"certificate-authority-data": None, "insecure-skip-tls-verify": True})), {}
    )
    assert unchecked.tls.insecure
    named = load(written(tmp_path, a_config(cluster={"tls-server-name": "kubernetes"})), {})
    assert named.tls.server_name == "kubernetes"


@each_row(
    ("server", "understood"),
    [
        ("https://host:1/", "https://host:1"),
        ("https://host/k8s/clusters/c-1/", "https://host/k8s/clusters/c-1"),
        ("host:1", "https://host:1"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("http://host", "http://host"),
    ],
)
def test_server_addresses(tmp_path: Path, server: str, understood: str) -> None:
    assert understood == load(written(tmp_path, a_config(cluster={"server": server})), {}).server


@each_row(
    ("host", "compressed"), [("api.example.com", True), ("127.0.0.1", False), ("[::1]", False), ("localhost", False)]
)
def test_compression_is_for_servers_far_away(tmp_path: Path, host: str, compressed: bool) -> None:
    assert compressed == load(written(tmp_path, a_config(cluster={"server": f"https://{host}:6443"})), {}).compressed


def test_a_server_without_scheme_and_without_tls_is_plain(tmp_path: Path) -> None:
    config = load(
        written(tmp_path, a_config(cluster={"server": "localhost:8080", "certificate-authority-data": None})), {}
    )
    assert config.server == "http://localhost:8080"


def test_a_proxy_of_the_file_goes_before_the_environment_s(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://other:1"}
    cluster = {"server": "https://api.example.com"}
    assert load(written(tmp_path, a_config(cluster=cluster)), environ).proxy == "http://other:1"
    assert (
        load(written(tmp_path, a_config(cluster={**cluster, "proxy-url": "http://own:1"})), environ).proxy
        == "http://own:1"
    )


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    extra = {"scope": ["x"], "example.org/Scope %": ["y"], "größe": ["z"]}
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": extra}
    assert load(written(tmp_path, a_config(user=user)), {}).user.headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.org%2FScope%20%25", "y"),
        ("Impersonate-Extra-gr%C3%B6%C3%9Fe", "z"),
        ("Impersonate-Extra-scope", "x"),
    )


def test_json_is_yaml_and_unknown_fields_do_not_matter(tmp_path: Path) -> None:
    text = (
        '{"clusters":[{"name":"c","cluster":{"server":"http://h","x":1}}],'
        '"contexts":[{"name":"n","context":{"cluster":"c"}}],"current-context":"n","users":null}'
    )
    assert load(written(tmp_path, text), {}).server == "http://h"
    assert load(written(tmp_path, json.dumps(json.loads(text), indent="\t")), {}).server == "http://h"


# -- KUBECONFIG


def test_of_several_files_the_first_counts_for_each_entry(tmp_path: Path) -> None:
    """kubectl's rule: the first file to name an entry has it whole; the first to set the current context keeps it."""
    one: dict[str, Any] = {"users": [{"name": "u", "user": {"token": "first"}}], "contexts": []}
    two = a_config(user={"username": "second", "password": "second"})
    elsewhere: dict[str, Any] = {"current-context": "elsewhere"}
    three = a_config(cluster={"server": "https://third"}, **elsewhere)
    paths = [written(tmp_path, config, name) for config, name in ((one, "1"), (two, "2"), (three, "3"))]
    config = load("", {"KUBECONFIG": ":".join(["", paths[0], str(tmp_path / "missing"), *paths[1:]])})
    assert ("https://127.0.0.1:6443", "first", "") == (config.server, config.user.token, config.user.username)


def test_paths_stay_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "token").write_text("from-b")
    one = written(tmp_path / "a", a_config(users=[]))
    two = written(tmp_path / "b", a_config(user={"tokenFile": "token"}))
    assert str(tmp_path / "b" / "token") == load("", {"KUBECONFIG": f"{one}:{two}"}).user.token_file


def test_an_explicit_path_goes_before_kubeconfig(tmp_path: Path) -> None:
    assert load(written(tmp_path, a_config()), {"KUBECONFIG": "/does/not/exist"}).namespace == "storage"


def test_kubeconfig_without_any_file_is_refused() -> None:
    assert "KUBECONFIG" in refused("", {"KUBECONFIG": "/does/not/exist:/neither"})


def test_of_several_files_some_may_be_empty(tmp_path: Path) -> None:
    texts = {"nothing": "", "comment": "# to be filled\n", "bare": "apiVersion: v1\nkind: Config\n"}
    files = [written(tmp_path, text, name) for name, text in texts.items()]
    assert "storage" == load("", {"KUBECONFIG": ":".join([*files, written(tmp_path, a_config())])}).namespace
    for file in files:
        assert file in refused("", {"KUBECONFIG": file})


def a_home(folder: Path, config: dict[str, Any] | None = None) -> dict[str, str]:
    (folder / ".kube").mkdir()
    written(folder / ".kube", a_config() if config is None else config)
    return {"HOME": str(folder)}


def test_without_kubeconfig_the_file_at_home_counts(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    for environ in (home, {**home, "KUBECONFIG": ""}, {**home, **IN_POD}):
        assert "storage" == load("", environ).namespace


def test_kubeconfig_goes_before_the_file_at_home(tmp_path: Path) -> None:
    home = a_home(tmp_path, a_config(cluster={"server": "https://home"}))
    assert "https://127.0.0.1:6443" == load("", {**home, "KUBECONFIG": written(tmp_path, a_config())}).server
    assert "KUBECONFIG" in refused("", {**home, "KUBECONFIG": "/does/not/exist"})


def test_a_wrong_file_at_home_is_named(tmp_path: Path) -> None:
    home = a_home(tmp_path, {"clusters": "no list"})
    assert f"{tmp_path}/.kube/config" in refused("", {**home, **IN_POD})


@pytest.mark.parametrize("home", ["", "relative", "/does/not/exist", "/dev/null"])
def test_without_a_file_at_home_only_a_pod_is_left(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_home(tmp_path)
    (tmp_path / "relative").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "this is no pod of a cluster" in refused("", {"HOME": home})


def test_a_missing_context_names_both_files(tmp_path: Path) -> None:
    no_context: dict[str, Any] = {"current-context": None}
    one, two = (written(tmp_path, a_config(**no_context), name) for name in ("1", "2"))
    message = refused("", {"KUBECONFIG": f"{one}:{two}"})
    assert one in message
    assert two in message


# -- in a pod


def a_service_account(folder: Path, token: str = "tok\n", ca: bytes | None = None) -> str:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(authority_pem() if ca is None else ca)
    return str(folder)


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_finds_its_own_cluster(tmp_path: Path) -> None:
    folder = a_service_account(tmp_path)
    (tmp_path / "namespace").write_text("kube-system\n")
    config = in_cluster(IN_POD, folder)
    assert ("https://10.0.0.1:443", "kube-system", f"{folder}/token") == (
        config.server,
        config.namespace,
        config.user.token_file,
    )
    assert config.proxy == ""
    assert not config.compressed


def test_a_pod_finds_its_own_cluster_over_ipv6(tmp_path: Path) -> None:
    config = in_cluster({**IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, a_service_account(tmp_path))
    assert config.server == "https://[fd00::1]:443"


def test_outside_of_a_pod_the_variable_is_named() -> None:
    with pytest.raises(
        ConfigError,
        match=r"this is no pod of a cluster.*; set KUBECONFIG to a kubeconfig file, or write ~/.kube/config$",
    ):
        load("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_a_sidecar_outside_of_a_pod_is_told_of_its_flag() -> None:
    with pytest.raises(ConfigError, match=r"; give --kubeconfig$"):
        in_cluster({})
    with pytest.raises(ConfigError, match=r"; give --kubeconfig \(KUBECONFIG is set, but does not count here\)$"):
        in_cluster({"KUBECONFIG": "somewhere"})


def test_what_is_wrong_in_a_pod_is_told(tmp_path: Path) -> None:
    def told(environ: dict[str, str], folder: str) -> str:
        with pytest.raises(ConfigError) as caught:
            in_cluster(environ, folder)
        return str(caught.value)

    assert f"{tmp_path}/token" in told(IN_POD, str(tmp_path))
    assert "holds no token" in told(IN_POD, a_service_account(tmp_path, token=" \n"))
    assert "holds no certificate" in told(IN_POD, a_service_account(tmp_path, ca=b"nothing"))
    (tmp_path / "ca.crt").unlink()
    assert f"{tmp_path}/ca.crt" in told(IN_POD, str(tmp_path))
    assert "KUBERNETES_SERVICE_PORT" in told({**IN_POD, "KUBERNETES_SERVICE_PORT": "x"}, a_service_account(tmp_path))


# -- what is wrong


def test_a_missing_file_is_named() -> None:
    assert (
        refused("/nonexistent/file")
        == 'kubeconfig: the file "/nonexistent/file" does not exist; check the path, or that it is mounted here'
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert str(tmp_path) in refused(str(tmp_path))


def test_an_endless_file_is_refused() -> None:
    assert "larger than" in refused("/dev/zero")


@each_row(
    ("text", "told"),
    [
        ("", "is empty"),
        ("just words", "must be a mapping"),
        ("- a\n- b", "is a list, must be a mapping"),
        ("kind: Deployment\nspec: {}", 'its kind is "Deployment"'),
        ("a: b", "neither clusters nor contexts"),
        (f"users:\n- name: {SECRET}\n  user: {{token: {SECRET}", "is not valid YAML at line 3"),
        (f"users: {{token: {SECRET}", "while parsing a flow mapping, expected ',' or '}', but got '<stream end>'"),
        (
            "users:\n\t- x",
            "is not valid YAML at line 2, column 1: while scanning for the next token, found character '\\t'",
        ),
        (f"users: *{SECRET}", "is not valid YAML at line 1, column 8: found undefined alias …"),
        (f"users: !!int {SECRET}", "is not valid YAML: invalid literal for int() with base 10: …"),
        (f"users: !!bool {SECRET}", "is not valid YAML: a value is not what its tag says"),
        (f"users: !!timestamp {SECRET}", "is not valid YAML: a value is not what its tag says"),
        ("a: !!python/object:os.system x", "is not valid YAML"),
        ("a: 2024-13-45", "is not valid YAML: month must be in 1..12"),
        ("a: \x01", "is not valid YAML at character 4: special characters are not allowed"),
        ("clusters: x", "clusters is text, must be a list"),
        ("clusters: [x]", "clusters[0] is text, must be a mapping"),
        ("clusters: [{cluster: {}}]", "clusters[0] has no name"),
        ("contexts: [{name: n, context: 5}]", "context is a number, must be a mapping"),
        ("current-context: 5", "current-context is a number, must be text; put it in quotes"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    message = refused(path)
    assert told in message
    assert path in message


@pytest.mark.slow
def test_a_file_nested_beyond_reason_is_refused(tmp_path: Path) -> None:
    assert "is not valid YAML" in refused(written(tmp_path, "[" * 5_000))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"\x80\x81\x82" * 10)
    assert "is not valid YAML" in refused(str(tmp_path / "config"))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"current-context": None}, "current-context is not set; contexts: here"),
    ({"current-context": "nowhere"}, 'context "nowhere" does not exist; contexts: here'),
    ({"contexts": [{"name": "here", "context": {"user": "u"}}]}, 'context "here": names no cluster'),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "x", "user": "u"}}]},
        'its cluster "x" does not exist; clusters: c',
    ),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "c", "user": "x"}}]},
        'its user "x" does not exist; users: u',
    ),
    ({"contexts": None}, "it has no contexts"),
    ({"cluster": {"server": None}}, "server is not set"),
    ({"cluster": {"server": 5}}, "server is a number, must be text"),
    ({"cluster": {"server": "https://"}}, "server: is not a URL"),
    ({"cluster": {"server": "https://host:port"}}, "server: is not a URL"),
    ({"cluster": {"server": "https://[::1"}}, "server: is not a URL"),
    ({"cluster": {"server": "ftp://host"}}, 'its scheme is "ftp"'),
    ({"cluster": {"server": f"https://user:{SECRET}@host"}}, "credentials belong to the user"),
    ({"cluster": {"server": "https://host/#x"}}, "credentials belong to the user"),
    ({"cluster": {"server": "https://host/?a=b"}}, "must be only scheme"),
    (
        {"cluster": {"insecure-skip-tls-verify": "yes please"}},
        "insecure-skip-tls-verify is text, must be true or false",
    ),
    ({"cluster": {"insecure-skip-tls-verify": True}}, "remove one of them"),
    ({"cluster": {"certificate-authority-data": f"%%{SECRET}"}}, "certificate-authority-data is not base64"),
    (
        {"cluster": {"certificate-authority-data": base64_of(SECRET.encode())}},
        "certificate-authority-data: holds no certificate",
    ),
    ({"cluster": {"certificate-authority-data": base64_of(authority_pem()[:200])}}, "holds no certificate"),
    (
        {
            "cluster": {
                "certificate-authority-data": base64_of(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
            }
        },
        "holds a certificate that can't be read",
    ),
    (
        {"cluster": {"certificate-authority-data": None, "certificate-authority": "/missing/ca"}},
        'the file "/missing/ca" does not exist',
    ),
    ({"cluster": {"proxy-url": f"socks5://a:{SECRET}@h"}}, 'of the kind "socks5" is not supported'),
    ({"user": {"token": 5}}, 'user "u": token is a number, must be text; put it in quotes'),
    ({"user": {"token": f"{SECRET}\nX-Evil: 1"}}, "token has characters that no token has"),
    ({"user": {"tokenFile": "missing"}}, "does not exist"),
    ({"user": {"token": SECRET, "username": "a"}}, "has a token and a username"),
    ({"user": {"password": SECRET}}, "has a password without a username"),
    ({"user": {"client-key-data": base64_of(client_pem()[1])}}, "has a client-key without a client-certificate"),
    (
        {"user": {"client-certificate-data": base64_of(client_pem()[0])}},
        "has a client-certificate without a client-key",
    ),
    (
        {"user": {"client-certificate": "/missing/c", "client-key": "/missing/k"}},
        'client-certificate: the file "/missing/c" does not exist',
    ),
    ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider is not supported"),
    ({"user": {"as-groups": ["x"]}}, "without as"),
    ({"user": {"as": "a\nb"}}, "plain printable ASCII"),
    ({"user": {"as": "a", "as-groups": [1]}}, "as-groups must be a list of texts"),
]


@each_row(("change", "told"), WRONG, ids=[told for _, told in WRONG])
def test_each_wrong_field_is_told(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = written(tmp_path, a_config(**change))
    message = refused(path)
    assert told in message
    assert path in message


def test_keys_that_do_not_fit_are_told(tmp_path: Path) -> None:
    certificate, key = client_pem()
    other_key = other_authority().issue_cert("x").private_key_pem.bytes()

    def told(certificate: bytes, key: bytes) -> str:
        user = {"client-certificate-data": base64_of(certificate), "client-key-data": base64_of(key)}
        message = refused(written(tmp_path, a_config(user=user)))
        assert "PRIVATE KEY-----" not in message.replace("-----BEGIN PRIVATE KEY-----", "")
        return message

    assert "is not the key of the certificate" in told(certificate, other_key)
    assert "client-certificate-data: holds no certificate" in told(key, key)
    assert "client-key-data: holds no private key" in told(certificate, certificate)
    assert "can't be used as certificate and key" in told(certificate, key[:100] + b"\n-----END PRIVATE KEY-----\n")
    assert "the key is encrypted" in told(
        certificate, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )


# -- exec plugins, as far as the file goes


def a_plugin(**changes: Any) -> dict[str, Any]:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never", **changes}
    return {"exec": {name: value for name, value in plugin.items() if value is not None}}


def test_a_plugin_is_read_whole(tmp_path: Path) -> None:
    a_program(tmp_path, "true")
    user = a_plugin(
        command="./plugin",
        args=["a", "b"],
        env=[{"name": "A", "value": "1"}],
        provideClusterInfo=True,
        interactiveMode="IfAvailable",
    )
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    path = written(tmp_path, a_config(user=user, cluster={"extensions": extensions, "tls-server-name": "k"}))
    plugin = load(path, {"HOME": "/root", "A": "the environment's own"}).user.exec_plugin
    assert plugin is not None
    assert (str(tmp_path / "plugin"), ("a", "b")) == (plugin.command, plugin.arguments)
    assert {"HOME": "/root", "A": "1"} == plugin.environment
    assert plugin.mode is InteractiveMode.IF_AVAILABLE
    assert plugin.cluster == {
        "server": "https://127.0.0.1:6443",
        "tls-server-name": "k",
        "certificate-authority-data": base64_of(authority_pem()),
        "config": {"audience": "x"},
    }


def test_a_bare_command_is_searched_in_path(tmp_path: Path) -> None:
    wanted = a_program(tmp_path, "true", "my-plugin")
    path = written(tmp_path, a_config(user=a_plugin(command="my-plugin")))
    plugin = load(path, {"PATH": f"/nowhere:{tmp_path}"}).user.exec_plugin
    assert plugin is not None
    assert wanted == plugin.command


def test_the_older_version_need_not_say_whether_it_asks(tmp_path: Path) -> None:
    user = a_plugin(apiVersion="client.authentication.k8s.io/v1beta1", interactiveMode=None)
    plugin = load(written(tmp_path, a_config(user=user)), PATH).user.exec_plugin
    assert plugin is not None
    assert plugin.mode is InteractiveMode.IF_AVAILABLE


@each_row(
    ("change", "told"),
    [
        ({"command": None}, "command is not set"),
        (
            {"command": "no-such-plugin", "installHint": "get it at example.com\n"},
            "The kubeconfig says: get it at example.com",
        ),
        ({"command": "./config"}, "was not found, or is no program"),
        ({"apiVersion": None}, 'apiVersion is ""'),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "must be client.authentication.k8s.io/v1 or"),
        ({"interactiveMode": None}, 'interactiveMode is "", must be one of Never, IfAvailable, Always'),
        ({"interactiveMode": "Sometimes"}, 'interactiveMode is "Sometimes"'),
        ({"args": SECRET}, "args is text, must be a list of texts"),
        ({"env": [{"value": SECRET}]}, "env has an entry"),
        ({"env": [{"name": "A=B", "value": SECRET}]}, "env has an entry"),
        ({"env": {"A": SECRET}}, "env is a mapping, must be a list"),
        ({"provideClusterInfo": "x"}, "provideClusterInfo is text"),
    ],
)
def test_each_wrong_field_of_a_plugin_is_told(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    message = refused(written(tmp_path, a_config(user=a_plugin(**change))))
    assert told in message
    assert 'user "u": exec' in message


def test_a_token_goes_before_a_plugin(tmp_path: Path) -> None:
    config = load(written(tmp_path, a_config(user={"token": "t", **a_plugin(command="no-such-plugin")})), PATH)
    assert ("t", None) == (config.user.token, config.user.exec_plugin)
