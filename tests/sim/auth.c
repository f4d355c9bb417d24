/* tests/sim/auth.c */
#include "sim/auth.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cover.h"
#include "sim/trace.h"

#define GRANTS     2 /* of a user at most */
#define TOKENS_MAX 4096
#define NO_USER    AUTH_USERS
#define LATE_MS    900 /* permit asks another member after 1,500 ms, and blames the token after 5,000 */

struct user {
    struct rights_range grants[GRANTS]; /* lent by the history, or constant */
    size_t n;
};

/* What holds from a time on. */
struct state {
    uint64_t from_ms;
    bool on;
    struct user users[AUTH_USERS];
};

struct token {
    unsigned user;
    uint64_t made_ms;
    size_t revision; /* the state in which it was made; a JWT is good in this one alone */
    uint64_t forgotten_ms[ETCD_MEMBERS_MAX];
};

struct auth {
    struct auth_opts opts;
    struct actor *actor;
    bool jwt, settled;
    struct state *states; /* owned; the newest last */
    size_t n_states, room;
    struct token tokens[TOKENS_MAX];
    size_t n_tokens;
    uint64_t next_ms, pace_ms;
    uint64_t revoke_ms;        /* when a right is revoked, whatever else happens */
    bool awaits_answer;        /* the next question that is allowed is answered late; a right is revoked meanwhile */
    uint64_t away_ms, slow_ms; /* until when */
    uint64_t away_from_ms;
    uint64_t restores; /* of the cluster, as last seen */
    bool was_up[ETCD_MEMBERS_MAX];
};

static const char zero[1] = {0};

/* ---- states ---- */

static struct state *newest(const struct auth *auth)
{
    return &auth->states[auth->n_states - 1];
}

/* A copy of the newest, to be changed. */
static struct state *auth_change(struct auth *auth)
{
    if (auth->n_states == auth->room) {
        auth->room = auth->room == 0 ? 64 : auth->room * 2;
        auth->states = realloc(auth->states, auth->room * sizeof(auth->states[0]));
        if (auth->states == NULL)
            abort();
    }
    auth->states[auth->n_states] = *newest(auth);
    auth->n_states++;
    newest(auth)->from_ms = auth_now(auth);
    return newest(auth);
}

static const struct state *state_at(const struct auth *auth, uint64_t at_ms)
{
    size_t i = auth->n_states - 1;
    while (i > 0 && auth->states[i].from_ms > at_ms)
        i--;
    return &auth->states[i];
}

uint64_t auth_now(const struct auth *auth)
{
    return sched_now(auth->opts.sched);
}

uint64_t auth_period(const struct auth *auth)
{
    return auth->opts.period_ms;
}

/* ---- ranges ---- */

static bool is_open(struct belfry_bytes end)
{
    return end.len == 1 && end.data[0] == '\0';
}

static bool grant_covers(const struct rights_range *grant, const struct rights_range *range)
{
    if (grant->end.len == 0)
        return range->end.len == 0 && belfry_bytes_equal(grant->key, range->key);
    if (belfry_bytes_cmp(range->key, grant->key) < 0)
        return false;
    if (is_open(grant->end))
        return true;
    if (range->end.len == 0)
        return belfry_bytes_cmp(range->key, grant->end) < 0;
    return !is_open(range->end) && belfry_bytes_cmp(range->end, grant->end) <= 0;
}

static bool user_may(const struct state *state, unsigned user, const struct rights_range *range)
{
    if (!state->on)
        return true;
    for (size_t i = 0; user < AUTH_USERS && i < state->users[user].n; i++) {
        if (grant_covers(&state->users[user].grants[i], range))
            return true;
    }
    return false;
}

static const struct rights_range everything = {{zero, 1}, {zero, 1}};

/* Everything, from a key on, between two keys, or one key. */
static struct rights_range random_grant(struct auth *auth)
{
    struct sched *sched = auth->opts.sched;
    const struct history *history = etcd_history(auth->opts.etcd);
    struct belfry_bytes a = history_key(history, (unsigned)sched_below(sched, history_keys(history)));
    struct belfry_bytes b = history_key(history, (unsigned)sched_below(sched, history_keys(history)));
    switch (sched_below(sched, 5)) {
    case 0:
        return (struct rights_range){a, {zero, 1}};
    case 1:
        return belfry_bytes_cmp(a, b) < 0 ? (struct rights_range){a, b} : (struct rights_range){b, a};
    case 2:
        return (struct rights_range){a, {0}};
    default:
        return everything;
    }
}

/* ---- bearers ---- */

static const struct token *token_of(const struct auth *auth, struct belfry_bytes secret)
{
    char text[16];
    unsigned number;
    snprintf(text, sizeof(text), "%.*s", (int)secret.len, secret.data);
    if (sscanf(text, "t%u", &number) != 1 || number >= auth->n_tokens)
        return NULL;
    return &auth->tokens[number];
}

static unsigned user_of(const struct auth *auth, unsigned kind, struct belfry_bytes secret)
{
    if (kind == AUTH_NAME)
        return (unsigned)(secret.data[1] - '0');
    const struct token *token = kind == AUTH_TOKEN ? token_of(auth, secret) : NULL;
    return token == NULL ? NO_USER : token->user;
}

static unsigned any_user(struct auth *auth)
{
    return 1 + (unsigned)sched_below(auth->opts.sched, AUTH_USERS - 1);
}

struct auth_who auth_log_in(struct auth *auth, unsigned user)
{
    struct auth_who who = {.kind = AUTH_NOBODY};
    if (!newest(auth)->on || auth->n_tokens == TOKENS_MAX)
        return who;
    struct token *token = &auth->tokens[auth->n_tokens];
    *token = (struct token){.user = user, .made_ms = auth_now(auth), .revision = auth->n_states - 1};
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        token->forgotten_ms[i] = BELFRY_NEVER;
    who.kind = AUTH_TOKEN;
    snprintf(who.secret, sizeof(who.secret), "t%zu", auth->n_tokens++);
    return who;
}

struct auth_who auth_by_name(unsigned user)
{
    struct auth_who who = {.kind = AUTH_NAME};
    snprintf(who.secret, sizeof(who.secret), "u%u", user % AUTH_USERS);
    return who;
}

struct auth_who auth_made_up(struct auth *auth)
{
    struct auth_who who = auth_by_name((unsigned)sched_below(auth->opts.sched, 3));
    uint64_t n = sched_below(auth->opts.sched, 4);
    who.kind = AUTH_TOKEN;
    if (n < 3)
        snprintf(who.secret, sizeof(who.secret), "%s", n == 0 ? "x" : "hang");
    return who;
}

/* ---- upstream ---- */

bool auth_was_away(const struct auth *auth, uint64_t at_ms)
{
    return at_ms >= auth->away_from_ms && at_ms < auth->away_ms;
}

uint64_t auth_delay(const struct auth *auth)
{
    bool is_slow = auth_now(auth) < auth->slow_ms;
    return is_slow ? sched_below(auth->opts.sched, LATE_MS) : 0;
}

bool auth_hangs(const struct auth_who *who)
{
    return who->kind == AUTH_TOKEN && strcmp(who->secret, "hang") == 0;
}

bool auth_was_on(const struct auth *auth, uint64_t at_ms)
{
    return state_at(auth, at_ms)->on;
}

static bool token_is_known(const struct token *token, unsigned member, uint64_t at_ms)
{
    return token != NULL && at_ms < token->forgotten_ms[member];
}

enum rights_answer auth_judge(const struct auth *auth, const struct rights_question *question, unsigned member,
                              uint64_t at_ms)
{
    const struct state *state = state_at(auth, at_ms);
    const struct rights_who *who = &question->who;
    const struct token *token = who->kind == AUTH_TOKEN ? token_of(auth, who->secret) : NULL;
    if (!state->on)
        return RIGHTS_ALLOWED;
    if (who->kind == AUTH_TOKEN && !token_is_known(token, member, at_ms))
        return RIGHTS_NO_SUCH_TOKEN;
    if (token != NULL && auth->jwt && state != &auth->states[token->revision])
        return RIGHTS_TOKEN_IS_OLD;
    unsigned user = user_of(auth, who->kind, who->secret);
    for (const struct rights_range *range = NULL; (range = rights_question_range(question, range)) != NULL;) {
        if (!user_may(state, user, range))
            return RIGHTS_FORBIDDEN;
    }
    return RIGHTS_ALLOWED;
}

uint64_t auth_last_allowed(const struct auth *auth, const struct rights_question *question, unsigned member,
                           uint64_t from_ms, uint64_t to_ms)
{
    for (uint64_t at_ms = to_ms; at_ms > from_ms; at_ms = state_at(auth, at_ms)->from_ms - 1) {
        if (auth_judge(auth, question, member, at_ms) == RIGHTS_ALLOWED)
            return at_ms;
        if (state_at(auth, at_ms)->from_ms == 0)
            break; /* the first */
    }
    return 0;
}

/* ---- the truth ---- */

/* Was there a state in [from, to] in which the user had the right, or had it not? */
static bool auth_was(const struct auth *auth, const struct auth_who *who, struct rights_range range, bool right,
                     uint64_t from_ms, uint64_t to_ms)
{
    unsigned user = user_of(auth, who->kind, belfry_bytes_str(who->secret));
    for (size_t i = auth->n_states; i-- > 0;) {
        const struct state *state = &auth->states[i];
        if (state->from_ms <= to_ms && user_may(state, user, &range) == right)
            return true;
        if (state->from_ms <= from_ms)
            return false;
    }
    return false;
}

bool auth_had_right(const struct auth *auth, const struct auth_who *who, struct rights_range range, uint64_t from_ms,
                    uint64_t to_ms)
{
    return auth_was(auth, who, range, true, from_ms, to_ms);
}

bool auth_lacked_right(const struct auth *auth, const struct auth_who *who, struct rights_range range, uint64_t from_ms,
                       uint64_t to_ms)
{
    return auth_was(auth, who, range, false, from_ms, to_ms);
}

static bool token_is_bad(const struct auth *auth, const struct auth_who *who, size_t state, uint64_t at_ms)
{
    const struct token *token = token_of(auth, belfry_bytes_str(who->secret));
    bool is_known = false;
    if (who->kind == AUTH_NAME)
        return false;
    for (unsigned i = 0; i < etcd_members(auth->opts.etcd); i++)
        is_known = is_known || token_is_known(token, i, at_ms);
    return !is_known || (auth->jwt && token->revision != state);
}

bool auth_lacked_token(const struct auth *auth, const struct auth_who *who, uint64_t from_ms, uint64_t to_ms)
{
    for (size_t i = auth->n_states; i-- > 0;) {
        const struct state *state = &auth->states[i];
        uint64_t until_ms = i + 1 < auth->n_states ? auth->states[i + 1].from_ms : to_ms; /* a token gets no better */
        if (state->from_ms <= to_ms && state->on && token_is_bad(auth, who, i, belfry_min_time(until_ms, to_ms)))
            return true;
        if (state->from_ms <= from_ms)
            return false;
    }
    return false;
}

/* ---- what happens ---- */

static void forget(struct auth *auth, size_t token, unsigned member)
{
    if (auth->tokens[token].forgotten_ms[member] == BELFRY_NEVER)
        auth->tokens[token].forgotten_ms[member] = auth_now(auth);
}

static void forget_all_of(struct auth *auth, unsigned user)
{
    for (size_t i = 0; i < auth->n_tokens; i++)
        for (unsigned member = 0; (user == NO_USER || auth->tokens[i].user == user) && member < ETCD_MEMBERS_MAX;
             member++)
            forget(auth, i, member);
}

static void grant(struct auth *auth)
{
    unsigned user = any_user(auth);
    struct rights_range range = random_grant(auth);
    struct user *to = &auth_change(auth)->users[user];
    to->grants[to->n < GRANTS ? to->n++ : sched_below(auth->opts.sched, GRANTS)] = range;
    TRACE("auth", "u%u is granted a range", user);
}

static void revoke(struct auth *auth)
{
    unsigned user = any_user(auth);
    struct user *of = &auth_change(auth)->users[user];
    if (of->n > 0)
        of->grants[sched_below(auth->opts.sched, of->n)] = of->grants[of->n - 1], of->n--;
    TRACE("auth", "u%u loses a range, has %zu", user, of->n);
}

/* Somebody who is not here. */
static void change_another(struct auth *auth)
{
    (void)auth_change(auth);
    TRACE("auth", "somebody else's roles change");
}

static void delete_user(struct auth *auth)
{
    unsigned user = any_user(auth);
    auth_change(auth)->users[user].n = 0;
    if (!auth->jwt)
        forget_all_of(auth, user);
    TRACE("auth", "u%u is deleted", user);
}

static void forget_token(struct auth *auth)
{
    if (auth->jwt || auth->n_tokens == 0)
        return;
    size_t back = sched_below(auth->opts.sched, auth->n_tokens < 6 ? auth->n_tokens : 6);
    size_t token = auth->n_tokens - 1 - back;
    bool everywhere = sched_one_in(auth->opts.sched, 2);
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        if (everywhere || sched_one_in(auth->opts.sched, 2))
            forget(auth, token, i);
    TRACE("auth", "t%zu is forgotten by %s members", token, everywhere ? "all" : "some");
}

static void turn(struct auth *auth)
{
    struct state *state = auth_change(auth);
    state->on = !state->on;
    if (!state->on && !auth->jwt)
        forget_all_of(auth, NO_USER);
    TRACE("auth", "auth is turned %s", state->on ? "on" : "off");
    if (state->on)
        COVER(auth_on);
    else
        COVER(auth_off);
}

static uint64_t some_time(struct auth *auth)
{
    uint64_t most = auth->opts.period_ms * 3 >> sched_below(auth->opts.sched, 4);
    return auth_now(auth) + sched_below(auth->opts.sched, most + 1);
}

static void go_away(struct auth *auth)
{
    auth->away_from_ms = auth_now(auth);
    auth->away_ms = some_time(auth);
    TRACE("auth", "upstream cannot be asked for %llu ms", (unsigned long long)(auth->away_ms - auth_now(auth)));
}

static void slow_down(struct auth *auth)
{
    auth->slow_ms = some_time(auth);
    TRACE("auth", "answers are late for %llu ms", (unsigned long long)(auth->slow_ms - auth_now(auth)));
}

/* Some lose all that they have, and for two periods nobody can ask. */
static void delete_role(struct auth *auth)
{
    struct state *state = auth_change(auth);
    for (unsigned i = 1; i < AUTH_USERS; i++)
        state->users[i].n = sched_one_in(auth->opts.sched, 2) ? 0 : state->users[i].n;
    auth->away_from_ms = auth_now(auth);
    auth->away_ms = auth_now(auth) + 2 * auth->opts.period_ms;
    TRACE("auth", "a role is deleted, and upstream cannot be asked");
}

/* A right is lost while an answer is on its way that it is there, and then nobody can ask. Which answer, shows when the
 * next question is asked: at a time by itself there would hardly ever be one under way. */
static void revoke_behind_answer(struct auth *auth)
{
    auth->awaits_answer = true;
}

uint64_t auth_delay_answer(struct auth *auth, const struct rights_question *question, unsigned member,
                           uint64_t reach_ms)
{
    bool is_slow = auth_now(auth) < auth->slow_ms;
    if (!auth->awaits_answer || auth->settled || auth_judge(auth, question, member, auth_now(auth)) != RIGHTS_ALLOWED)
        return is_slow ? sched_below(auth->opts.sched, LATE_MS) : 0;
    auth->awaits_answer = false;
    auth->revoke_ms = reach_ms + 1 + sched_below(auth->opts.sched, LATE_MS / 8);
    sched_wake(auth->opts.sched, auth->actor, auth->revoke_ms);
    return LATE_MS;
}

/* A right is lost while nobody can ask. */
static void revoke_and_go_away(struct auth *auth)
{
    revoke(auth);
    go_away(auth);
}

static void turn_and_go_away(struct auth *auth)
{
    turn(auth);
    go_away(auth);
}

/* What can happen, and how often, of all. */
#define AUTH_TABLE(X)                                                                                                  \
    X(grant, 14)                                                                                                       \
    X(revoke, 4)                                                                                                       \
    X(change_another, 2)                                                                                               \
    X(delete_user, 1)                                                                                                  \
    X(forget_token, 2)                                                                                                 \
    X(turn, 2)                                                                                                         \
    X(go_away, 3)                                                                                                      \
    X(slow_down, 4)                                                                                                    \
    X(revoke_and_go_away, 4)                                                                                           \
    X(revoke_behind_answer, 4)                                                                                         \
    X(turn_and_go_away, 2)

static void happen(struct auth *auth)
{
    static const struct {
        void (*fn)(struct auth *auth);
        uint64_t weight;
        enum cover path;
    } kinds[] = {
#define AUTH_KIND(name, weight) {name, weight, COVER_auth_##name},
        AUTH_TABLE(AUTH_KIND)};
    uint64_t total = 0, n = sizeof(kinds) / sizeof(kinds[0]), i = 0;
    for (uint64_t k = 0; k < n; k++)
        total += kinds[k].weight;
    uint64_t at = sched_below(auth->opts.sched, total);
    while (at >= kinds[i].weight)
        at -= kinds[i++].weight;
    cover_counts[kinds[i].path]++;
    kinds[i].fn(auth);
}

/* A member that starts again knows no simple token. */
static void look_at_members(struct auth *auth)
{
    uint64_t restores = etcd_counts(auth->opts.etcd)->restores;
    for (unsigned i = 0; i < etcd_members(auth->opts.etcd); i++) {
        bool is_up = etcd_member_is_up(auth->opts.etcd, i);
        bool is_new = (is_up && !auth->was_up[i]) || restores != auth->restores;
        for (size_t token = 0; is_new && !auth->jwt && token < auth->n_tokens; token++)
            forget(auth, token, i);
        auth->was_up[i] = is_up;
    }
    auth->restores = restores;
}

static uint64_t auth_step(void *arg)
{
    struct auth *auth = arg;
    uint64_t now = auth_now(auth);
    if (auth->settled)
        return BELFRY_NEVER;
    look_at_members(auth);
    if (now >= auth->revoke_ms) {
        delete_role(auth);
        auth->revoke_ms = BELFRY_NEVER;
    }
    if (now >= auth->next_ms) {
        happen(auth);
        auth->next_ms = now + sched_below(auth->opts.sched, auth->pace_ms * 2);
    }
    return belfry_min_time(auth->next_ms, auth->revoke_ms);
}

/* ---- create and destroy ---- */

struct auth *auth_create(const struct auth_opts *opts)
{
    static const uint64_t parts[] = {8, 4, 2}; /* of a period, between two changes */
    struct auth *auth = calloc(1, sizeof(*auth));
    if (auth == NULL || (auth->states = calloc(64, sizeof(auth->states[0]))) == NULL)
        abort();
    auth->opts = *opts;
    auth->room = 64;
    auth->n_states = 1;
    auth->revoke_ms = BELFRY_NEVER;
    auth->jwt = sched_one_in(opts->sched, 3);
    auth->pace_ms = opts->period_ms / parts[sched_below(opts->sched, 3)] * (auth->jwt ? 3 : 1);
    auth->next_ms = sched_now(opts->sched) + sched_below(opts->sched, auth->pace_ms * 2);
    newest(auth)->on = !sched_one_in(opts->sched, 4);
    for (unsigned i = 0; i < AUTH_USERS; i++) {
        newest(auth)->users[i] = (struct user){.grants = {everything}, .n = 1};
        if (i != AUTH_TIERS_USER)
            newest(auth)->users[i].grants[newest(auth)->users[i].n++] = random_grant(auth);
    }
    for (unsigned i = 0; i < ETCD_MEMBERS_MAX; i++)
        auth->was_up[i] = true;
    auth->actor = sched_add(opts->sched, ACTOR_PLAIN, auth_step, auth);
    return auth;
}

void auth_destroy(struct auth *auth)
{
    if (auth == NULL)
        return;
    sched_remove(auth->opts.sched, auth->actor);
    free(auth->states);
    free(auth);
}

void auth_settle(struct auth *auth)
{
    auth->settled = true;
    auth->slow_ms = 0;
    auth->away_from_ms = auth_now(auth);
    auth->away_ms = sched_one_in(auth->opts.sched, 2) ? auth_now(auth) + 2 * auth->opts.period_ms : 0;
}
