"""The MongoDB API: connecting, logging in, sessions, and what the server says about itself."""

import socket
import ssl
import struct
from urllib.parse import quote

import bson
import pytest
from pymongo.errors import ConnectionFailure, OperationFailure, ServerSelectionTimeoutError

from mongo import VARIANTS, Mongo, port_of, refused_command
from server import READONLY_KEY, SECONDARY_KEY, Server, export_certificate
from support import done, new_id


@pytest.fixture(scope="session")
def certificate(server, tmp_path_factory):
    return export_certificate(server, tmp_path_factory.mktemp("certificate"))


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join((variant[0], variant[1], "tls" if variant[2] else "plain")))
def mongo(request, server, certificate):
    return Mongo(server, certificate, *request.param)


@pytest.fixture
async def client(mongo):
    connected = mongo.client()
    yield connected
    await done(connected.close())


async def test_a_client_connects_without_an_argument_but_the_address(mongo, client):
    assert (await mongo.command(client, "ping"))["ok"] == 1.0
    hello = await mongo.command(client, "hello")
    if mongo.listener == "mongo":
        assert hello["msg"] == "isdbgrid"
    else:
        assert hello["setName"] == "globaldb" and hello["hosts"] == [f"localhost:{mongo.port}"]
    assert hello["maxWireVersion"] == 21 and hello["isWritablePrimary"] is True
    assert (await mongo.command(client, "isMaster"))["ismaster"] is True


async def test_every_reply_has_the_times_that_causal_consistency_needs(mongo, client):
    first, second = [await mongo.command(client, "ping") for _ in range(2)]
    assert isinstance(first["operationTime"], bson.Timestamp)
    assert second["$clusterTime"]["clusterTime"] >= first["$clusterTime"]["clusterTime"]
    ahead = {"clusterTime": bson.Timestamp(first["operationTime"].time + 40, 3), "signature": first["$clusterTime"]["signature"]}
    session = client.start_session()
    session.advance_cluster_time(ahead)
    seen = await mongo.command(client, "ping", session=session)
    await done(session.end_session())
    assert seen["$clusterTime"]["clusterTime"] >= ahead["clusterTime"]


async def test_the_server_describes_itself(mongo, client):
    build = await mongo.command(client, "buildInfo")
    assert build["versionArray"][:2] == [7, 0] and build["version"].startswith("7.0.")
    assert (await mongo.command(client, "hostInfo"))["system"]["numCores"] >= 1
    status = await mongo.command(client, "serverStatus")
    assert status["connections"]["current"] >= 1 and status["opcounters"]["command"] >= 1
    parameters = await mongo.command(client, "getParameter", "*")
    assert parameters["enableTestCommands"] is False
    one = await mongo.command(client, "getParameter", 1, featureCompatibilityVersion=1)
    assert one["featureCompatibilityVersion"] == {"version": "7.0"}
    with refused_command(72, "InvalidOptions"):
        await mongo.command(client, "getParameter", "foo")
    assert (await mongo.command(client, "getLog", "startupWarnings"))["log"] == []
    with refused_command(96):
        await mongo.command(client, "getLog", "other")
    listed = (await mongo.command(client, "listCommands"))["commands"]
    assert listed["hello"]["requiresAuth"] is False and "helloOk" in listed["hello"]["fields"]
    assert ":" in (await mongo.command(client, "whatsmyuri"))["you"]


async def test_unknown_commands_and_fields_are_errors(mongo, client):
    with refused_command(59, "CommandNotFound") as failed:
        await mongo.command(client, "foo")
    assert failed.value.details["errmsg"] == "no such command: 'foo'"
    with refused_command(115, "CommandNotSupported"):
        await mongo.command(client, "mapReduce", "c")
    with refused_command(40415) as failed:
        await mongo.command(client, "ping", nonsense=1)
    assert failed.value.details["errmsg"] == "BSON field 'ping.nonsense' is an unknown field."
    with refused_command(14, "TypeMismatch"):
        await mongo.command(client, "ping", maxTimeMS="long")
    with refused_command(13):
        await mongo.command(client, "getLog", "global", database="other")


async def test_the_stable_api_is_checked(mongo):
    with refused_command(323, "APIStrictError"):
        client = mongo.client()
        try:
            await mongo.command(client, "buildInfo", apiVersion="1", apiStrict=True)
        finally:
            await done(client.close())
    client = mongo.client()
    with refused_command(322, "APIVersionError"):
        await mongo.command(client, "ping", apiVersion="2")
    assert (await mongo.command(client, "ping", apiVersion="1", apiStrict=True))["ok"] == 1.0
    await done(client.close())


async def test_sessions_begin_and_end(mongo, client):
    started = await mongo.command(client, "startSession")
    assert started["timeoutMinutes"] == 30
    session = started["id"]
    assert session["id"].subtype == 4 and len(session["id"]) == 16
    for name in ("refreshSessions", "endSessions", "killSessions"):
        assert (await mongo.command(client, name, [session]))["ok"] == 1.0
    assert (await mongo.command(client, "killAllSessions", []))["ok"] == 1.0
    with refused_command(207, "InvalidUUID"):
        await mongo.command(client, "endSessions", [{"id": b"short"}])


async def test_messages_can_be_compressed(mongo):
    client = mongo.client(compressors="zlib")
    hello = await mongo.command(client, "hello", compression=["none", "snappy", "zlib", "zstd"])
    assert hello["compression"] == ["snappy", "zlib", "zstd"]
    padding = "x" * 100_000
    assert (await mongo.command(client, "ping", comment=padding))["ok"] == 1.0
    await done(client.close())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"])
async def test_the_account_logs_in_with_a_key(mongo, mechanism):
    if mechanism == "PLAIN" and not mongo.tls:
        with refused_command(334, "MechanismUnavailable"):
            await log_in(mongo, mongo.server.key, mechanism)
        return
    for user, key in (("planisphere", mongo.server.key), ("localhost", SECONDARY_KEY)):
        status = await log_in(mongo, key, mechanism, user)
        assert [who["user"] for who in status["authenticatedUsers"]] == [user]
        assert status["authenticatedUserRoles"] == [{"role": "root", "db": "admin"}]
    with refused_command(18, "AuthenticationFailed"):
        await log_in(mongo, "wrong", mechanism)
    with refused_command(18, "AuthenticationFailed"):
        await log_in(mongo, mongo.server.key, mechanism, "nobody")


async def log_in(mongo, key, mechanism, user="planisphere"):
    options = {"replicaSet": "globaldb"} if mongo.listener == "mongo_cosmos" else {}
    client = mongo.client(
        f"mongodb://localhost:{mongo.port}/",
        username=user,
        password=key,
        authMechanism=mechanism,
        **options,
    )
    try:
        await mongo.command(client, "startSession")
        return (await mongo.command(client, "connectionStatus"))["authInfo"]
    finally:
        await done(client.close())


async def test_a_read_only_key_can_read_only(mongo):
    options = {"replicaSet": "globaldb"} if mongo.listener == "mongo_cosmos" else {}
    client = mongo.client(
        f"mongodb://localhost:{mongo.port}/", username="planisphere", password=READONLY_KEY, **options
    )
    assert (await mongo.command(client, "hostInfo"))["ok"] == 1.0
    with refused_command(13, "Unauthorized"):
        await mongo.command(client, "createUser", new_id("u"), pwd="p", roles=[])
    await done(client.close())


async def test_users_are_made_log_in_and_go(mongo, client):
    name, database = new_id("user"), new_id("db")
    roles = [{"role": "readWrite", "db": database}]
    await mongo.command(client, "createUser", name, database, pwd="secret é", roles=roles)
    with refused_command(51003):
        await mongo.command(client, "createUser", name, database, pwd="secret", roles=roles)
    found = (await mongo.command(client, "usersInfo", name, database))["users"]
    assert [(user["_id"], user["roles"]) for user in found] == [(f"{database}.{name}", roles)]
    options = {"replicaSet": "globaldb"} if mongo.listener == "mongo_cosmos" else {}
    own = mongo.client(
        f"mongodb://localhost:{mongo.port}/?authSource={database}", username=name, password="secret é", **options
    )
    await mongo.command(own, "startSession")
    with refused_command(13, "Unauthorized"):
        await mongo.command(own, "dropUser", name, database)
    await mongo.command(client, "dropUser", name, database)
    with refused_command(13, "Unauthorized"):
        await mongo.command(own, "startSession")
    await done(own.close())
    with refused_command(11, "UserNotFound"):
        await mongo.command(client, "dropUser", name, database)


async def test_the_user_of_the_account_stays(mongo, client):
    assert (await mongo.command(client, "dropAllUsersFromDatabase"))["ok"] == 1.0
    users = (await mongo.command(client, "usersInfo", "planisphere"))["users"]
    assert [user["_id"] for user in users] == ["admin.planisphere"]


async def test_the_second_port_is_a_second_router(mongo):
    second = port_of(mongo.server, "mongo_second")
    assert second == port_of(mongo.server, "mongo") + 1
    client = mongo.client(f"mongodb://127.0.0.1:{second}/", tls=mongo.tls)
    assert (await mongo.command(client, "hello"))["msg"] == "isdbgrid"
    await done(client.close())


def test_cosmos_connection_strings_need_a_key(server, certificate):
    mongo = Mongo(server, certificate, "sync", "mongo_cosmos", True)
    client = mongo.client(f"mongodb://localhost:{mongo.port}/?ssl=true&replicaSet=globaldb")
    assert client.admin.command("ping")["ok"] == 1.0
    with refused_command(13, "Unauthorized"):
        client.admin.command("startSession")
    client.close()
    clear = mongo.client(f"mongodb://localhost:{mongo.port}/", tls=False, tlsCAFile=None)
    with pytest.raises((ServerSelectionTimeoutError, ConnectionFailure)):
        clear.admin.command("ping")
    clear.close()


def test_credentials_can_be_demanded(tmp_path):
    server = Server("--memory", "--mongo-auth", "on")
    try:
        mongo = Mongo(server, tmp_path, "sync", "mongo", False)
        client = mongo.client()
        assert client.admin.command("buildInfo")["ok"] == 1.0
        with refused_command(13, "Unauthorized"):
            client.admin.command("serverStatus")
        with refused_command(13, "Unauthorized"):
            client.admin.command("getCmdLineOpts")
        client.close()
        key = quote(server.key, safe="")
        client = mongo.client(f"mongodb://planisphere:{key}@127.0.0.1:{mongo.port}/")
        options = client.admin.command("getCmdLineOpts")
        assert options["parsed"]["security"] == {"authorization": "enabled"}
        client.close()
    finally:
        server.stop()


def test_tests_can_let_commands_fail(tmp_path):
    server = Server("--memory", "--mongo-test-commands", "on")
    try:
        mongo = Mongo(server, tmp_path, "sync", "mongo", False)
        client = mongo.client(retryReads=False)
        assert client.admin.command("getParameter", "*")["enableTestCommands"] is True
        data = {"failCommands": ["ping"], "errorCode": 96}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
        with pytest.raises(OperationFailure) as failed:
            client.admin.command("ping")
        assert failed.value.code == 96
        assert client.admin.command("ping")["ok"] == 1.0
        data = {"failCommands": ["ping"], "closeConnection": True}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
        with pytest.raises(ConnectionFailure):
            client.admin.command("ping")
        met = client.admin.command("configureFailPoint", "failCommand", mode="off")
        assert met["count"] == 1
        client.close()
    finally:
        server.stop()


def test_a_browser_gets_nothing(server, certificate):
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd"
    for listener in ("mongo", "mongo_second", "mongo_cosmos"):
        with socket.create_connection(("127.0.0.1", port_of(server, listener)), timeout=10) as connection:
            assert answer_to(connection, request) == b""
    context = ssl.create_default_context(cafile=str(certificate))
    for listener in ("mongo", "mongo_cosmos"):
        connection = socket.create_connection(("127.0.0.1", port_of(server, listener)), timeout=10)
        with context.wrap_socket(connection, server_hostname="localhost") as secured:
            assert answer_to(secured, request) == b""


def answer_to(connection, request):
    connection.sendall(request)
    answer = b""
    try:
        while piece := connection.recv(4096):
            answer += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return answer


@pytest.mark.parametrize("length", [278, 534, 790])
def test_messages_that_begin_like_tls_are_served(server, length):
    def hello(padding):
        body = bson.encode({"hello": 1, "$db": "admin", "comment": "x" * padding})
        return struct.pack("<iiiiIB", 21 + len(body), 1, 0, 2013, 0, 0) + body

    message = hello(length - len(hello(0)))
    assert len(message) == length and message[0] == 0x16
    with socket.create_connection(("127.0.0.1", port_of(server, "mongo")), timeout=10) as connection:
        connection.sendall(message)
        size = struct.unpack("<i", connection.recv(4, socket.MSG_WAITALL))[0]
        reply = connection.recv(size - 4, socket.MSG_WAITALL)
    assert bson.decode(reply[17:])["msg"] == "isdbgrid"
