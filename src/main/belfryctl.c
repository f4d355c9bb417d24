/* src/main/belfryctl.c: belfryctl. Reads the flags, finds the command, and sees to signals. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <belfry/belfry.h>

#include "cli/cmd.h"
#include "cli/out/out.h"
#include "cli/password.h"
#include "opt/help.h"

/* Nothing is in flight that an orderly end would save: output goes out at every turn, and a server knows how to treat a
 * connection that closes. */
static void end_at_once(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_INTERRUPTED);
}

static void see_to_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt = {.sa_handler = end_at_once}, was;
    sigaction(SIGPIPE, &ignore, NULL);                                   /* a closed pipe is noticed by its EPIPE */
    if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN) /* a shell's & has it ignored */
        sigaction(SIGINT, &interrupt, NULL);
}

/* A socket must not become descriptor 1 because the caller closed it: what is printed would go to the server. */
static void keep_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
            _exit(EXIT_FAILED);
}

static enum exit_code print_help(enum command command)
{
    belfry_opt_help(stdout, &flag_table, command);
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}

static enum exit_code help(const struct flags *flags)
{
    enum command command = CMD_NONE;
    char why[FLAGS_WHY];
    if (flags->n_args > 0 && flags_find_command(flags->args[0], &command, why) != BELFRY_OK)
        return report_usage(why);
    return print_help(command);
}

static enum exit_code version(void)
{
    printf("belfryctl version: %s\nlibbelfry version: %s\n", BELFRY_VERSION, belfry_version());
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}

static enum exit_code run(const struct flags *flags)
{
    if (flags_on(flags, FLAG_HELP) && flags->command != CMD_HELP)
        return print_help(flags->command);
    switch (flags->command) {
    case CMD_GET:
        return cmd_get(flags);
    case CMD_PUT:
        return cmd_put(flags);
    case CMD_DEL:
        return cmd_del(flags);
    case CMD_TXN:
        return cmd_txn(flags);
    case CMD_LEASE:
        return cmd_lease(flags);
    case CMD_MEMBER:
        return cmd_member(flags);
    case CMD_WATCH:
        return cmd_watch(flags);
    case CMD_FOLLOW:
        return cmd_follow(flags);
    case CMD_STATUS:
        return cmd_status(flags);
    case CMD_TOP:
        return cmd_top(flags);
    case CMD_TREE:
        return cmd_tree(flags);
    case CMD_HEALTH:
        return cmd_health(flags);
    case CMD_DOCTOR:
        return cmd_doctor(flags);
    case CMD_VERIFY:
        return cmd_verify(flags);
    case CMD_KUBE:
        return cmd_kube(flags);
    case CMD_COMPLETION:
        return cmd_completion(flags);
    case CMD_HELP:
        return help(flags);
    case CMD_VERSION:
        return version();
    case CMD_NONE: /* flags_parse() has refused it, unless --help was there */
    case N_COMMANDS:
        break;
    }
    return EXIT_USAGE;
}

int main(int argc, char *argv[])
{
    struct flags flags;
    char why[FLAGS_WHY], password[PASSWORD_MAX];
    keep_standard_descriptors();
    see_to_signals();
    enum belfry_err err = flags_parse(argc, argv, getenv, &flags, why);
    if (err == BELFRY_OK && !flags_on(&flags, FLAG_HELP))
        err = password_complete(&flags, password, why);
    enum exit_code code;
    if (err == BELFRY_OK)
        code = run(&flags);
    else
        code = err == BELFRY_ERR_INVALID ? report_usage(why) : report_error(err, NULL);
    flags_fini(&flags);
    explicit_bzero(password, sizeof(password));
    return code;
}
