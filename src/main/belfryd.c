/* src/main/belfryd.c: belfryd: one etcd watch in, a million watchers out. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/config_check.h"
#include "daemon/front.h"
#include "daemon/harden.h"
#include "daemon/logger.h"
#include "daemon/service.h"
#include "daemon/slack.h"
#include "daemon/tls_memory.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What it will do and what the machine allows, before anything can go wrong. */
static void announce(const struct config *config, const struct belfry_log *log)
{
    struct service_limits limits;
    service_limits(&limits);
    belfry_logf(log, BELFRY_LOG_INFO, "start", "version=%s name=%s workers=%u cache_dir=%s", BELFRY_VERSION,
                config->name, config->workers, config->cache_dir);
    for (size_t i = 0; i < config->n_follow; i++)
        belfry_logf(log, BELFRY_LOG_INFO, "upstream", "kube=%s follow=%s", config->upstream_kube, config->follow[i]);
    for (size_t i = 0; i < config->n_upstream; i++)
        belfry_logf(log, BELFRY_LOG_INFO, "upstream", "endpoint=%s", config->upstream[i].url);
    belfry_logf(log, BELFRY_LOG_INFO, "limits",
                "descriptors=%" PRIu64 " connections=%" PRIu64 " somaxconn=%" PRIu64 " memory_bytes=%" PRIu64,
                limits.descriptors, limits.connections, limits.somaxconn, limits.memory_bytes);
}

static const char *yes_or_no(bool is)
{
    return is ? "yes" : "no";
}

static void announce_hardening(const struct harden_report *report, const struct belfry_log *log)
{
    enum belfry_log_level level = report->filter ? BELFRY_LOG_INFO : BELFRY_LOG_WARN;
    belfry_logf(log, level, "hardened", "no_new_privs=%s not_dumpable=%s no_exec_gain=%s filter=%s",
                yes_or_no(report->no_new_privs), yes_or_no(report->not_dumpable), yes_or_no(report->no_exec_gain),
                yes_or_no(report->filter));
    if (geteuid() == 0)
        belfry_logf(log, BELFRY_LOG_WARN, "runs_as_root",
                    "why=\"belfryd does not need root; a bug would have full privileges\" "
                    "remedy=\"start it as a user of its own\"");
}

static void warn_open_secret(const char *path, void *user)
{
    const struct belfry_log *const *log = user;
    belfry_logf(*log, BELFRY_LOG_WARN, "secret_is_open",
                "file=\"%s\" why=\"every user of this machine may read this secret\" remedy=\"chmod o-r it\"", path);
}

static int run(const struct config *config, int argc, char **argv)
{
    struct harden_report hardened = {0};
    if (config->harden)
        harden_self(&hardened); /* before the logger's thread and every other one */
    struct logger *logger;
    char why[512] = "out of memory";
    if (logger_create(config->log_level, config->log_format, 2, &logger) != BELFRY_OK) {
        fprintf(stderr, "belfryd: %s\n", why);
        return EXIT_FAILED;
    }
    announce(config, logger_log(logger));
    announce_hardening(&hardened, logger_log(logger));
    const struct belfry_log *log = logger_log(logger);
    config_each_open_secret(config, warn_open_secret, &log);
    struct front_opts front = {.config = config, .logger = logger, .argc = argc, .argv = argv};
    enum belfry_err err = front_run(&front, why, sizeof(why));
    if (err != BELFRY_OK && why[0] != '\0')
        belfry_logf(logger_log(logger), BELFRY_LOG_ERROR, "failed", "why=\"%s\"", why);
    logger_destroy(logger);
    return err == BELFRY_OK ? EXIT_DONE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct config config;
    enum config_do what;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until the front takes it: what reloads other servers must not end this one */
    slack_begin();
    tls_memory_begin();
    enum belfry_err err = config_load(argc, argv, stdout, stderr, &config, &what);
    if (err != BELFRY_OK)
        return err == BELFRY_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
    int status = what == CONFIG_EXIT ? EXIT_DONE : run(&config, argc, argv);
    config_fini(&config);
    return status;
}
