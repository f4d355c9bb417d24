/* src/cli/password.c */
#include "cli/password.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios shown; /* what the terminal was like: a signal handler has no other way to know */

static void show_again_and_end(int signal_number)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &shown);
    _exit(128 + signal_number);
}

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define N_DEADLY (sizeof(deadly) / sizeof(deadly[0]))

static bool ask(const char *user, char out[PASSWORD_MAX])
{
    struct sigaction end = {.sa_handler = show_again_and_end}, old[N_DEADLY];
    if (tcgetattr(STDIN_FILENO, &shown) != 0)
        return false;
    sigemptyset(&end.sa_mask);
    for (size_t i = 0; i < N_DEADLY; i++)
        sigaction(deadly[i], &end, &old[i]);

    struct termios hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    bool read_it = false;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0) {
        fprintf(stderr, "Password of %s: ", user);
        read_it = fgets(out, PASSWORD_MAX, stdin) != NULL;
        fputc('\n', stderr);
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &shown);
    for (size_t i = 0; i < N_DEADLY; i++)
        sigaction(deadly[i], &old[i], NULL);
    if (read_it)
        out[strcspn(out, "\r\n")] = '\0';
    return read_it;
}

enum belfry_err password_complete(struct flags *flags, char room[PASSWORD_MAX], char *why)
{
    const char *user = flags->value[FLAG_USER];
    bool known = flags->value[FLAG_PASSWORD] != NULL || flags->value[FLAG_PASSWORD_FILE] != NULL;
    if (user == NULL || known || strchr(user, ':') != NULL)
        return BELFRY_OK;
    if (isatty(STDIN_FILENO) != 1 || !ask(user, room)) {
        snprintf(why, FLAGS_WHY,
                 "--user %.64s has no password: give --password-file FILE, --password or BELFRYCTL_PASSWORD", user);
        return BELFRY_ERR_INVALID;
    }
    flags->value[FLAG_PASSWORD] = room;
    flags->source[FLAG_PASSWORD] = FROM_COMMAND_LINE;
    return BELFRY_OK;
}
