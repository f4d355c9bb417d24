/* src/cli/live.c */
#include "cli/live.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/one_call.h"
#include "cli/opts.h"
#include "cli/out/live_out.h"
#include "cli/out/notice.h"
#include "cli/out/out.h"
#include "cli/range_args.h"

struct live {
    const struct flags *flags;
    struct belfry *b;
    struct live_out out;
    struct notice notice;
    int64_t give_up_ms; /* when the first connection must be there */
    bool over;
    enum exit_code code; /* valid when over */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void end(struct live *live, enum exit_code code)
{
    if (!live->over)
        live->code = code;
    live->over = true;
}

static void flush(struct live *live)
{
    switch (out_flush()) {
    case OUT_OPEN:
        break;
    case OUT_CLOSED:
        end(live, EXIT_DONE);
        break;
    case OUT_BROKEN:
        end(live, EXIT_FAILED);
        break;
    }
}

static enum exit_code report_end(const struct belfry_batch *batch)
{
    if (batch->err == BELFRY_OK) /* --once */
        return EXIT_DONE;
    if (batch->err == BELFRY_ERR_COMPACTED && batch->compact_rev > 0)
        return report_compacted(batch->compact_rev);
    return report_error(batch->err, batch->why);
}

static enum belfry_next on_batch(struct belfry_watch *watch, const struct belfry_batch *batch, void *user)
{
    struct live *live = user;
    (void)watch;
    if (live->over)
        return BELFRY_STOP;
    live_out_batch(&live->out, batch);
    if (batch->kind == BELFRY_LINK || batch->kind == BELFRY_END)
        flush(live); /* what came before is read before what is said about it on standard error */
    if (batch->kind == BELFRY_LINK)
        notice_hear(&live->notice, stderr, batch->why, now_ms());
    else if (batch->kind == BELFRY_END)
        end(live, report_end(batch));
    else
        notice_alive(&live->notice);
    if (ferror(live->out.to)) /* told after the turn, by out_flush() */
        return BELFRY_STOP;
    return BELFRY_MORE;
}

/* Every endpoint gets its chance to be dialled, and a server that is up gets the time of a command. */
static int64_t start_ms(const struct flags *flags)
{
    int64_t n = 1;
    for (const char *at = flags->value[FLAG_ENDPOINTS]; *at != '\0'; at++)
        n += *at == ',';
    int64_t dial = flags_ms(flags, FLAG_DIAL_TIMEOUT) * n, command = flags_ms(flags, FLAG_COMMAND_TIMEOUT);
    return dial > command ? dial : command;
}

static void give_up(struct live *live)
{
    char why[NOTICE_TEXT + FLAGS_WHY];
    if (live->notice.words[0] != '\0')
        snprintf(why, sizeof(why), "%s", live->notice.words);
    else
        snprintf(why, sizeof(why), "no endpoint answers: %.256s", live->flags->value[FLAG_ENDPOINTS]);
    end(live, report_error(BELFRY_ERR_UNAVAILABLE, why));
}

static int wait_ms(const struct live *live)
{
    int64_t now = now_ms();
    if (live->notice.state != NOTICE_NEW)
        return notice_wait_ms(&live->notice, now);
    return live->give_up_ms > now ? (int)(live->give_up_ms - now) : 0;
}

/* Standard output is in the poll without events: that tells of a reader who has gone while nothing is written. */
static void turn(struct live *live)
{
    struct pollfd fds[] = {{.fd = belfry_fd(live->b), .events = POLLIN}, {.fd = STDOUT_FILENO}};
    if (poll(fds, 2, wait_ms(live)) < 0 && errno != EINTR)
        end(live, report_errno("poll"));
    if ((fds[0].revents & POLLIN) != 0) {
        int err = belfry_dispatch(live->b);
        if (err != BELFRY_OK)
            end(live, report_error(err, belfry_strerror(err)));
        flush(live);
    }
    if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        end(live, EXIT_DONE);
    notice_tick(&live->notice, stderr, now_ms());
    if (!live->over && live->notice.state == NOTICE_NEW && now_ms() >= live->give_up_ms)
        give_up(live);
}

static enum exit_code run(struct live *live, live_open_fn open, struct belfry_range range,
                          const struct belfry_opts *opts)
{
    enum exit_code code = session_open(live->flags, NULL, &live->b);
    if (code != EXIT_DONE)
        return code;
    int err = open(live->b, range, opts, on_batch, live, NULL);
    if (err != BELFRY_OK)
        end(live, report_error(err, belfry_strerror(err)));
    live->give_up_ms = now_ms() + start_ms(live->flags);
    while (!live->over)
        turn(live);
    belfry_close(live->b);
    return live->code;
}

enum exit_code live_run(const struct flags *flags, live_open_fn open)
{
    struct live live = {.flags = flags};
    struct belfry_range range;
    struct belfry_opts *opts = NULL;
    char why[FLAGS_WHY] = "";

    live.out.to = stdout;
    live.out.table.hex = flags_on(flags, FLAG_HEX);
    live.out.progress = flags_on(flags, FLAG_PROGRESS_NOTIFY);
    enum belfry_err err = range_of_flags(flags, &range, why);
    if (err == BELFRY_OK)
        err = form_choose(flags, isatty(STDOUT_FILENO) == 1, &live.out.form, why);
    if (err == BELFRY_OK)
        err = opts_fill(flags, TAKER_CALL, &opts, why);
    enum exit_code code;
    if (err == BELFRY_OK)
        code = run(&live, open, range, opts);
    else
        code = err == BELFRY_ERR_INVALID ? report_usage(why) : report_error(err, NULL);
    belfry_opts_free(opts);
    live_out_fini(&live.out);
    return code;
}
