/* tests/storm/day.c */
#include "storm/day.h"

#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/chance.h"
#include "storm/clock.h"
#include "storm/curl.h"
#include "storm/etcd.h"
#include "storm/feed.h"
#include "storm/house.h"
#include "storm/origin.h"
#include "storm/verdict.h"
#include "support/refuse.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define MINUTE_MS     60000
#define HOUR_MS       (60 * (uint64_t)MINUTE_MS)
#define WRITE_MS      6000 /* between two revisions, about */
#define NIGHT_HOURS   4    /* at most, of twelve */
#define HOSTS         6    /* which the users are on */
#define CURLS         2
#define SETTLE_ROUNDS 100000
#define FULL_MS       (30 * (uint64_t)MINUTE_MS) /* when all users are there */
#define LEAK_BYTES    (256 * 1024)               /* in a minute: in half an hour nearly twice DAY_GROWTH */

/* Who is there. */
static const struct {
    enum habit_who habit;
    const struct user_job *job;
    unsigned n;
} crowd[] = {{HABIT_GO, &job_watch, 3},           {HABIT_GO_KEEPALIVE, &job_watch, 2},
             {HABIT_PYTHON, &job_watch, 2},       {HABIT_NODE, &job_watch, 2},
             {HABIT_GO, &job_churn, 2},           {HABIT_PYTHON, &job_churn, 1},
             {HABIT_NODE, &job_churn, 1},         {HABIT_GO, &job_read, 2},
             {HABIT_PYTHON, &job_read, 1},        {HABIT_NODE, &job_read, 1},
             {HABIT_GO, &job_lease, 2},           {HABIT_PYTHON, &job_lease, 1},
             {HABIT_NODE, &job_lease, 1},         {HABIT_GO, &job_quiet, 2},
             {HABIT_GO_KEEPALIVE, &job_quiet, 1}, {HABIT_PYTHON, &job_quiet, 1},
             {HABIT_NODE, &job_quiet, 1},         {HABIT_GO, &job_once, 2},
             {HABIT_CLIENT_GO, &job_inform, 4},   {HABIT_CLIENT_GO, &job_page, 4}};

#define USERS_MAX 40

static struct {
    struct choices *choices;
    const struct day_fault *fault;
    struct day_tally *tally;
    struct user users[USERS_MAX];
    size_t n_users;
    struct curl curls[CURLS];
    size_t n_curls;
    uint64_t began_ms, write_ms, look_ms;
    size_t least; /* bytes in use, of this hour */
    void *leaked[DAY_HOURS_MAX * 60];
    size_t n_leaked;
} day;

/* ---- memory ---- */

/* The sanitizers' allocator; other builds do not have it. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t memory_in_use(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* ---- the judge ---- */

/* Counters that must not move, all series of each. */
static const char *const zeroes[] = {"belfry_rejected_total",
                                     "belfry_watches_expelled_total",
                                     "belfry_connections_idle_ended_total",
                                     "belfry_connections_certificate_ended_total",
                                     "belfry_kube_refused_total",
                                     "belfry_kube_slow_total",
                                     "belfry_kube_expired_total",
                                     "belfry_kube_timeouts_total",
                                     "belfry_kube_undecodable_total",
                                     "belfry_sse_resets_total",
                                     "belfry_sse_later_total",
                                     "belfry_sse_refused_total",
                                     "belfry_sse_slow_total",
                                     "belfry_compacted_total",
                                     "belfry_overslept_total",
                                     "belfry_relays_failed_total",
                                     "belfry_uplink_losses_total",
                                     "belfry_permissions_unavailable_total",
                                     "belfry_rights_pauses_total",
                                     "belfry_fence_failed_total"};

static void expect_zeroes(const struct tier_numbers *numbers)
{
    const struct number *rows;
    size_t n = numbers_table(&rows), n_looked = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; rows[i].metric != NULL && k < COUNT(zeroes); k++) {
            if (strcmp(rows[i].metric, zeroes[k]) != 0)
                continue;
            n_looked++;
            uint64_t value = numbers_value(numbers, &rows[i]);
            if (value != 0)
                verdict_fail("normal use: %s{%s} is %llu", rows[i].metric, rows[i].labels != NULL ? rows[i].labels : "",
                             (unsigned long long)value);
        }
    }
    verdict_must(n_looked >= COUNT(zeroes), "counters by their names");
}

static void expect_streams_ended_well(const struct worker_numbers *worker)
{
    for (size_t why = WATCH_CLOSE_PEER + 1; why < WATCH_CLOSES; why++)
        if (worker->watch.closed[why] != 0)
            verdict_fail("normal use: %llu streams of watches were closed: %s",
                         (unsigned long long)worker->watch.closed[why], watch_close_name((enum watch_close)why));
}

static void expect_room(const struct worker_numbers *worker)
{
    unsigned full = day.fault->full == 0 ? DAY_FULL : day.fault->full;
    for (size_t i = 0; i < SHARES_N; i++) {
        const struct pool_numbers *pool = &worker->pools[i];
        unsigned percent = pool->limit == 0 ? 0 : (unsigned)(pool->used * 100 / pool->limit);
        day.tally->fullest = percent > day.tally->fullest ? percent : day.tally->fullest;
        if (pool->refused != 0 || pool->yielded != 0 || pool->in_trouble != 0 || percent > full)
            verdict_fail("normal use: of the pool %s %u %% are used, %llu were refused, %llu ended",
                         shares_pool_name((enum shares_pool)i), percent, (unsigned long long)pool->refused,
                         (unsigned long long)pool->yielded);
    }
}

/* A watch over HTTP/1.1 whose client was interrupted is found by asking the kernel, and counts as dead. */
static void expect_alive(const struct tier_numbers *numbers)
{
    uint64_t dead = 0, interrupted = day.tally->did.interrupted;
    for (size_t i = 0; i < numbers->n_workers; i++)
        dead += numbers->workers[i].inbound.dead;
    if (dead > interrupted)
        verdict_fail("normal use: %llu connections were taken for dead, and %llu were interrupted",
                     (unsigned long long)dead, (unsigned long long)interrupted);
}

static const struct tier_numbers *judge(void)
{
    const struct tier_numbers *numbers = house_numbers();
    expect_zeroes(numbers);
    expect_alive(numbers);
    for (size_t i = 0; i < numbers->n_workers; i++) {
        verdict_must(numbers->workers[i].answered, "a worker that answers");
        expect_streams_ended_well(&numbers->workers[i]);
        expect_room(&numbers->workers[i]);
    }
    return numbers;
}

static void judge_memory(unsigned hour)
{
    struct day_tally *tally = day.tally;
    tally->memory = hour == 0 ? day.least : tally->memory;
    tally->memory_end = day.least;
    if (day.least > tally->memory + DAY_GROWTH)
        verdict_fail("normal use: %zu bytes are in use in hour %u, and %zu were in the first", day.least, hour,
                     tally->memory);
    day.least = SIZE_MAX;
}

/* ---- time ---- */

/* The hours 8 to 11 of twelve. */
static bool is_night(void)
{
    uint64_t hour = (belfry_clock_ms() - day.began_ms) / HOUR_MS;
    return hour % 12 >= 12 - NIGHT_HOURS;
}

/* Turns of the users that are due, or have something to read. */
static bool turn_users(void)
{
    struct pollfd fds[USERS_MAX];
    bool did = false, night = is_night();
    for (size_t i = 0; i < day.n_users; i++)
        fds[i] = (struct pollfd){.fd = day.users[i].peer.line.fd, .events = POLLIN};
    verdict_must(poll(fds, day.n_users, 0) >= 0, "poll");
    for (size_t i = 0; i < day.n_users; i++) {
        struct user *user = &day.users[i];
        bool has_output = user->peer.state != PEER_AWAY && belfry_buf_len(&user->peer.line.out) > 0;
        if (fds[i].revents != 0 || has_output || user_due(user) <= belfry_clock_ms())
            did = user_turn(user, night) || did;
    }
    for (size_t i = 0; i < day.n_curls; i++)
        did = curl_turn(&day.curls[i], night) || did;
    return did;
}

/* Until nothing is left to do at this time. */
static void settle(void)
{
    unsigned quiet = 0, rounds = 0;
    while (quiet < 2) {
        house_round();
        bool did = turn_users();
        quiet = did || house_due() <= belfry_clock_ms() ? 0 : quiet + 1;
        if (rounds++ > SETTLE_ROUNDS)
            verdict_fail("normal use: there is no end of things to do");
    }
    day.tally->turns += rounds;
}

static uint64_t next_event(void)
{
    uint64_t due_ms = belfry_min_time(house_due(), belfry_min_time(day.write_ms, day.look_ms));
    for (size_t i = 0; i < day.n_users; i++)
        due_ms = belfry_min_time(due_ms, user_due(&day.users[i]));
    for (size_t i = 0; i < day.n_curls; i++)
        due_ms = belfry_min_time(due_ms, day.curls[i].next_ms);
    return due_ms;
}

/* Now and then a roll-out writes a hundred revisions at once. */
static void write_some(void)
{
    uint32_t n = choose_rarely(day.choices, 400) ? 100 : 1;
    for (; n > 0; n--, day.tally->revisions++)
        feed_write(day.choices, FEED_SOUND);
    day.write_ms = belfry_clock_ms() + WRITE_MS / 2 + choose(day.choices, WRITE_MS) * (is_night() ? 10 : 1);
}

static void begin_fault(void)
{
    if (day.fault->what == DAY_CUT)
        feed_cut(EVLOG_CUT_REWRITTEN);
    else if (day.fault->what == DAY_SILENT)
        origin_set_fault(ORIGIN_SILENT);
}

/* Without what is kept up to a bound of its own: the log, and decoded objects. */
static size_t memory_of_use(const struct tier_numbers *numbers)
{
    size_t kept = numbers->log_bytes;
    for (size_t i = 0; i < numbers->n_workers; i++)
        kept += numbers->workers[i].kube.forms_bytes;
    return memory_in_use() - kept;
}

static void look(void)
{
    size_t bytes = memory_of_use(judge());
    if (day.look_ms == day.began_ms + FULL_MS)
        begin_fault();
    if (day.look_ms >= day.began_ms + FULL_MS)
        day.least = bytes < day.least ? bytes : day.least;
    day.look_ms += MINUTE_MS;
    if (day.fault->what == DAY_LEAK)
        day.leaked[day.n_leaked++] = calloc(1, LEAK_BYTES);
}

static void pass_hour(unsigned hour)
{
    uint64_t end_ms = day.began_ms + (hour + 1) * HOUR_MS;
    while (belfry_clock_ms() < end_ms) {
        uint64_t now_ms = belfry_clock_ms();
        if (now_ms >= day.write_ms)
            write_some();
        if (now_ms >= day.look_ms)
            look();
        settle();
        uint64_t due_ms = next_event();
        now_ms = belfry_clock_ms();
        clock_pass(due_ms > now_ms ? due_ms - now_ms : 1);
    }
    judge_memory(hour);
    day.tally->hours++;
}

/* ---- beginning and end ---- */

static void begin_users(void)
{
    const char *token = etcd_has_auth() ? ETCD_ROOT : NULL;
    for (size_t i = 0; i < COUNT(crowd); i++) {
        for (unsigned k = 0; k < crowd[i].n; k++) {
            bool is_tls = crowd[i].habit == HABIT_CLIENT_GO || choose(day.choices, 2) == 0;
            struct user_opts opts = {.habit = crowd[i].habit,
                                     .job = crowd[i].job,
                                     .door = is_tls ? HOUSE_TLS : HOUSE_PLAIN,
                                     .host = 1 + choose(day.choices, HOSTS),
                                     .number = (unsigned)day.n_users,
                                     .token = token,
                                     .choices = day.choices,
                                     .tally = &day.tally->did,
                                     .haste = day.fault->haste == 0 ? 1 : day.fault->haste};
            verdict_must(day.n_users < USERS_MAX, "a place for a user");
            user_init(&day.users[day.n_users++], &opts);
        }
    }
    for (; day.n_curls < CURLS; day.n_curls++)
        curl_init(&day.curls[day.n_curls], HOUSE_PLAIN, 1 + (unsigned)day.n_curls, token, day.choices, &day.tally->did);
}

static void begin(struct choices *choices, const struct day_fault *fault, struct day_tally *tally)
{
    static const struct day_fault none;
    memset(&day, 0, sizeof(day));
    day.choices = choices;
    day.fault = fault != NULL ? fault : &none;
    day.tally = tally;
    day.least = SIZE_MAX;
    house_open_plain(choices, day.fault->change);
    etcd_set_orderly();
    etcd_set_auth(choose(choices, 2) == 1);
    begin_users();
    day.began_ms = day.write_ms = day.look_ms = belfry_clock_ms();
}

static void end(void)
{
    judge();
    while (day.n_users > 0)
        user_fini(&day.users[--day.n_users]);
    while (day.n_curls > 0)
        curl_fini(&day.curls[--day.n_curls]);
    settle();
    house_close();
    for (size_t i = 0; i < day.n_leaked; i++)
        free(day.leaked[i]);
}

void day_run(struct choices *choices, uint64_t seed, unsigned hours, const struct day_fault *fault,
             struct day_tally *tally)
{
    size_t held = refuse_held();
    chance_begin(seed);
    clock_begin();
    begin(choices, fault, tally);
    tally->days++;
    for (unsigned hour = 0; hour < hours; hour++)
        pass_hour(hour);
    end();
    clock_end();
    if (refuse_held() != held)
        verdict_fail("%zd allocations are left after the server's end", (ssize_t)(refuse_held() - held));
}
