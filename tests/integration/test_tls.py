"""What a TLS listener accepts, refuses and tells operators."""
import os
import signal
import socket
import ssl
import subprocess

import procs
import pytest
from certs import Certs
from ports import free_port

DAY_S = 24 * 3600
SUITES = {  # of TLS 1.2 -> whether a client that offers nothing else is served
    "ECDHE-ECDSA-AES128-GCM-SHA256": True,
    "ECDHE-ECDSA-AES256-GCM-SHA384": True,
    "ECDHE-ECDSA-CHACHA20-POLY1305": True,
    "ECDHE-ECDSA-AES128-SHA": False,  # encrypted, then authenticated
    "ECDHE-ECDSA-AES256-SHA384": False,
    "AES128-GCM-SHA256": False,  # no forward secrecy
    "AES256-SHA": False,
}


@pytest.fixture
def certs(tmp_path):
    return Certs(tmp_path / "certs")


@pytest.fixture
def listener(cluster, make_tier, certs):
    port = free_port()
    tier = make_tier(cluster, "--listen", f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')}")
    return tier, port


def handshake(certs, port, *flags):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", certs.path("ca.pem"),
                           "-verify_return_error", "-alpn", "h2", *flags],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    return done.returncode == 0 and "Verify return code: 0" in done.stdout, done.stdout + done.stderr


def refused(tier):
    return tier.metrics()['belfry_rejected_total{reason="handshake"}']


def test_only_suites_with_forward_secrecy_are_spoken(listener, certs):
    tier, port = listener
    for suite, is_served in SUITES.items():
        served, said = handshake(certs, port, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")
        assert served == is_served, (suite, said)
    assert handshake(certs, port, "-tls1_3")[0]
    assert not handshake(certs, port, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")[0]
    n_refused = sum(not is_served for is_served in SUITES.values()) + 1
    procs.wait_until(lambda: refused(tier) >= n_refused, 10)
    assert "event=handshake_failed" in tier.log()


def test_time_until_expiry_is_a_metric(listener):
    tier, _ = listener
    metrics = tier.metrics()
    assert 0 <= 2 * DAY_S - metrics['belfry_certificate_left_seconds{of="listener"}'] < 600  # it is for two days
    assert 'belfry_certificate_left_seconds{of="upstream"}' not in metrics  # plain HTTP


def test_hangup_reads_a_new_certificate_now(listener, certs):
    tier, port = listener
    before = tier.log().count("event=tls_reloaded")
    certs.renew()
    os.kill(tier.pid, signal.SIGHUP)
    procs.wait_until(lambda: tier.log().count("event=tls_reloaded") > before, 5)
    served, said = handshake(certs, port, "-tls1_3")
    assert served, said


def client_context(certs, version, user=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certs.path("ca.pem"))
    context.maximum_version = version
    if user:
        context.load_cert_chain(certs.path(f"{user}.pem"), certs.path(f"{user}.key"))
    return context


def visit(context, port, session=None):
    """Asks for /health: (was the session resumed?, the session to come back with)."""
    with socket.create_connection(("127.0.0.1", port), 10) as plain:
        wrapped = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
        wrapped.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert wrapped.recv(4096).startswith(b"HTTP/1.1 200")
        return wrapped.session_reused, wrapped.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_resume_at_their_listener_only(cluster, make_tier, certs, version):
    files = f"cert={certs.path('server.pem')},key={certs.path('server.key')}"
    here, there, closed = free_port(), free_port(), free_port()
    tier = make_tier(cluster, "--workers", "2", "--listen", f"https://127.0.0.1:{here},{files}",
                     "--listen", f"https://127.0.0.1:{there},{files}",
                     "--listen", f"https://127.0.0.1:{closed},{files},client-ca={certs.path('ca.pem')}")
    anyone, known = client_context(certs, version), client_context(certs, version, "client")
    reused, session = visit(anyone, here)
    assert not reused and session.has_ticket and session.ticket_lifetime_hint <= 3600
    assert all(visit(anyone, here, session)[0] for _ in range(4))  # whichever worker it comes to
    assert not visit(anyone, there, session)[0]
    reused, session = visit(known, closed)
    assert not reused and not session.has_ticket  # its certificate must be judged each time
    metrics = tier.metrics()
    assert metrics['belfry_tls_handshakes_total{kind="resumed"}'] == 4
    assert metrics['belfry_tls_handshakes_total{kind="full"}'] == 3
