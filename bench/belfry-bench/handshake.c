/* bench/belfry-bench/handshake.c: connections that come and go, one after the other: what each costs the server. An
 * https target is spoken to with plain OpenSSL, because libbelfry does not resume sessions: with --resume each
 * connection goes on with the session that the last one was given.
 *
 * A connection is over when the first byte of the server's SETTINGS is there: tickets come before it. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "die.h"
#include "modes.h"
#include "poller.h"
#include "proc.h"
#include "stopwatch.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";

struct visits {
    const struct plan *plan;
    SSL_CTX *ctx;         /* NULL: plain */
    SSL_SESSION *session; /* of the last one; NULL: none */
    size_t n_resumed;
};

static void die_of_tls(const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    die("%s: %s", what, reason != NULL ? reason : "the server closed the connection");
}

static void open_tls(struct visits *visits)
{
    static const unsigned char alpn[] = "\x02h2";
    const struct plan *plan = visits->plan;
    visits->ctx = must_have(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_verify(visits->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_file(visits->ctx, plan->cacert) != 1 || SSL_CTX_set_alpn_protos(visits->ctx, alpn, 3) != 0)
        die_of_tls("--cacert");
    if (plan->cert != NULL && (SSL_CTX_use_certificate_chain_file(visits->ctx, plan->cert) != 1 ||
                               SSL_CTX_use_PrivateKey_file(visits->ctx, plan->key, SSL_FILETYPE_PEM) != 1))
        die_of_tls("--cert, --key");
}

/* A socket that blocks, connected. */
static int connect_to(const struct visits *visits)
{
    int fd = target_connect(&visits->plan->target), err = 0;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(err);
    if (poll(&ready, 1, stopwatch_ms_until(visits->plan->deadline_ns)) != 1)
        die("the server does not accept connections");
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err != 0)
        die("connect: %s", strerror(err));
    target_block(fd);
    return fd;
}

static void visit_plain(const struct visits *visits)
{
    char byte;
    int fd = connect_to(visits);
    if (send(fd, preface, sizeof(preface), MSG_NOSIGNAL) != sizeof(preface) || recv(fd, &byte, 1, 0) != 1)
        die("the server closed the connection");
    close(fd);
}

static void visit_tls(struct visits *visits)
{
    char byte;
    int fd = connect_to(visits);
    SSL *ssl = must_have(SSL_new(visits->ctx));
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), visits->plan->target.host);
    if (visits->session != NULL)
        SSL_set_session(ssl, visits->session);
    if (SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1 ||
        SSL_write(ssl, preface, sizeof(preface)) != sizeof(preface) || SSL_read(ssl, &byte, 1) != 1)
        die_of_tls("TLS");
    visits->n_resumed += SSL_session_reused(ssl) == 1;
    if (visits->plan->resume) {
        SSL_SESSION_free(visits->session);
        visits->session = SSL_get1_session(ssl);
    }
    SSL_shutdown(ssl); /* else the session counts as broken */
    SSL_free(ssl);
    close(fd);
}

static void visit_all(struct visits *visits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (stopwatch_ns() > visits->plan->deadline_ns)
            die("there was time for %zu of %zu connections only", i, n);
        if (visits->ctx != NULL)
            visit_tls(visits);
        else
            visit_plain(visits);
    }
}

int handshake_run(const struct plan *plan)
{
    struct report report = {0};
    struct visits visits = {.plan = plan};
    int poll = poller_create();
    if (plan->target.is_tls)
        open_tls(&visits);
    visit_all(&visits, 10); /* until nothing is done for the first time */
    visits.n_resumed = 0;
    struct proc_use before = proc_use(plan->pid);
    uint64_t began = stopwatch_ns();
    visit_all(&visits, plan->conns);
    double wall_s = (double)(stopwatch_ns() - began) * 1e-9;
    round_idle(poll, plan->settle_ms * NS_PER_MS); /* the server sees the last close */
    double cpu_us = (proc_use(plan->pid).cpu_s - before.cpu_s) * 1e6 / (double)plan->conns;
    report_text(&report, "mode", "handshake");
    report_number(&report, "connections", (double)plan->conns);
    report_number(&report, "resumed", (double)visits.n_resumed);
    report_number(&report, "wall_s", wall_s);
    report_number(&report, "server_cpu_us_per_connection", cpu_us);
    report_number(&report, "connections_per_s_and_core", cpu_us > 0 ? 1e6 / cpu_us : 0);
    report_print(&report, plan->form, stdout);
    SSL_SESSION_free(visits.session);
    SSL_CTX_free(visits.ctx);
    close(poll);
    return plan->resume && visits.n_resumed < plan->conns;
}
