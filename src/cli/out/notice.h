/* src/cli/out/notice.h
 *
 * notice: the connection as the user hears of it, from the words of BELFRY_LINK.
 *
 * A change of endpoint that mends itself quickly is one line: "!! A gone; on B after 212 ms, nothing missed". One that
 * lasts is told at once when it has lasted NOTICE_QUIET_MS, and again when it is over.
 *
 *   NEW --connected--> UP --lost--> DOWN --NOTICE_QUIET_MS--> TOLD
 *                       ^-------connected------+--------------+
 *
 * Thread: owner. Memory: fixed; longer words are cut.
 */
#ifndef BELFRY_CLI_OUT_NOTICE_H
#define BELFRY_CLI_OUT_NOTICE_H

#include <stdint.h>
#include <stdio.h>

#define NOTICE_QUIET_MS 1000
#define NOTICE_TEXT     1024

enum notice_state { NOTICE_NEW, NOTICE_UP, NOTICE_DOWN, NOTICE_TOLD };

/* Zeroed to begin with. */
struct notice {
    enum notice_state state;
    int64_t since_ms;           /* DOWN and TOLD: when it was lost */
    char endpoint[NOTICE_TEXT]; /* UP: the one; DOWN and TOLD: the one that was lost */
    char words[NOTICE_TEXT];    /* the last that was said and was not "connected" */
};

/* `why` of a BELFRY_LINK batch. Notices go to `out`. */
void notice_hear(struct notice *notice, FILE *out, const char *why, int64_t now_ms);

/* Something came from the server, so there is a connection, whatever was said about it. */
void notice_alive(struct notice *notice);

/* Says what has become due. */
void notice_tick(struct notice *notice, FILE *out, int64_t now_ms);

/* How long until notice_tick() has something to say; -1: nothing is due. */
int notice_wait_ms(const struct notice *notice, int64_t now_ms);

#endif
