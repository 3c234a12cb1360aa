"""Addresses of drivers, and what is said about those where nobody can be reached."""

import os
import socket as sockets

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.address import socket_path, trouble
from tests.support.layers import OTHER_USERS, not_tested
from tests.support.rows import each_row


@each_row(
    ("address", "path"),
    [
        ("/run/csi/socket", "/run/csi/socket"),
        ("unix:///run/csi/socket", "/run/csi/socket"),
        ("unix:////run/csi/socket", "/run/csi/socket"),
        ("unix:/run/csi/socket", "/run/csi/socket"),
        ("//run/csi/socket", "/run/csi/socket"),
        ("/with space/ä%20#?.sock", "/with space/ä%20#?.sock"),
    ],
)
def test_CO01_paths_and_unix_addresses_name_a_socket(address, path):
    assert socket_path(address) == path


@each_row(
    "address",
    [
        "localhost:1234",
        "dns:///driver",
        "unix:run/csi",
        "unix://run/csi",
        "tcp://127.0.0.1:1",
        "run/csi/socket",
        "",
        "@abstract",
        "UNIX:///a",
    ],
)
def test_CO07_other_addresses_are_refused_with_the_peers_words(address):
    with pytest.raises(ConfigError, match="OnConnectionLoss callback only supported for unix:// addresses") as refused:
        socket_path(address)
    assert refused.value.exit_code == 1
    assert str(refused.value).startswith(f"csi-address {address!r} is not the path of a unix socket"), (
        "people's words come first"
    )


@each_row("address", ["/", "unix:///", "unix:/", "///", "/a\0b"])
def test_an_address_without_a_name_is_refused(address):
    with pytest.raises(ConfigError, match="names no socket"):
        socket_path(address)


def test_a_path_longer_than_a_sockets_is_refused():
    """By bytes, not by characters: the kernel would say `AF_UNIX path too long`, and gRPC nothing that a reader
    understands.
    """
    assert socket_path("/" + "a" * 106)
    with pytest.raises(
        ConfigError, match="the path has 108 bytes, a socket's may have 107: let the driver serve in a shorter one"
    ):
        socket_path("/" + "a" * 107)
    with pytest.raises(ConfigError, match="the path has 109 bytes"):
        socket_path("/" + "ä" * 54)


def test_somebody_who_listens_is_no_trouble(socket):
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(socket))
        listener.listen()
        assert trouble(str(socket)) == ""


def test_a_path_that_is_not_there(socket):
    assert (
        trouble(str(socket))
        == "the socket does not exist yet: is the driver running, and is the folder of its socket mounted here too?"
    )


def test_a_socket_whose_owner_is_gone(socket):
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(socket))
    assert trouble(str(socket)) == "the socket is there, but nobody listens on it"


def test_a_file_and_a_folder(socket):
    socket.write_text("hello")
    assert trouble(str(socket)) == "it is a file, not a socket"
    assert trouble(str(socket.parent)) == "it is a folder, not a socket"
    assert trouble("/dev/null") == "it is something else, not a socket"
    assert trouble(f"{socket}/below") == "a part of its path is not a folder"


def test_a_folder_that_may_not_be_entered(socket):
    socket.parent.chmod(0)
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(65534)
    try:
        assert trouble(str(socket)) == f"permission denied: user {os.geteuid()} may not look into the socket's folder"
    finally:
        if as_root:
            os.seteuid(0)
        socket.parent.chmod(0o700)


def test_a_socket_of_another_user_says_whose_it_is(socket):
    """Issue 27, C.3: a sidecar that is not root beside a driver that is."""
    if os.geteuid() != 0:
        not_tested(OTHER_USERS, "not root")
    socket.parent.chmod(0o755)
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(socket))
        socket.chmod(0o755)
        listener.listen()
        os.seteuid(65532)
        try:
            found = trouble(str(socket))
        finally:
            os.seteuid(0)
    assert found.startswith(
        "permission denied: this is user 65532, and the socket, mode 0755, is of user 0 and group 0: run both "
        "as one user"
    )


def test_a_listener_who_takes_no_connections(socket):
    """A driver that hangs before it accepts: looking must not hang too."""
    with sockets.socket(sockets.AF_UNIX) as listener, sockets.socket(sockets.AF_UNIX) as first:
        listener.bind(str(socket))
        listener.listen(0)
        first.connect(str(socket))
        assert trouble(str(socket)) == "the socket is there, but nobody takes connections from it"
