/* src/serve/relay/relay_check.c */
#include "serve/relay/relay_check.h"

#include "net/grpc_reply.h"
#include "serve/relay/relay_rights.h"

static void check_pass(struct relay_check *check, struct belfry_http_field field)
{
    check->fn(&(struct relay_checked){.verdict = RELAY_CHECK_PASSED, .field = field}, check->user);
}

static void check_stop(struct relay_check *check, enum relay_check_verdict verdict, int code, const char *why)
{
    check->fn(&(struct relay_checked){.verdict = verdict, .code = code, .why = why}, check->user);
}

/* The call goes on with the field that speaks for its user, when there is one. */
static void check_vouch(struct relay_check *check)
{
    struct voucher voucher;
    switch (vouch_ask(check->all->vouch, check->name, &check->wait, &voucher)) {
    case VOUCH_GIVEN:
        check->revision = voucher.revision;
        check_pass(check, voucher.field);
        break;
    case VOUCH_LATER:
        break;
    case VOUCH_REFUSED:
        if (check->needs_user)
            check_stop(check, RELAY_CHECK_REFUSED, BELFRY_GRPC_UNAUTHENTICATED, vouch_message(voucher.reason));
        else
            check_pass(check, (struct belfry_http_field){0});
        break;
    case VOUCH_UNAVAILABLE:
        check_stop(check, RELAY_CHECK_FAILED, BELFRY_GRPC_UNAVAILABLE, voucher.reason);
        break;
    }
}

static void on_check_vouched(struct vouch_wait *wait)
{
    check_vouch(belfry_container(wait, struct relay_check, wait));
}

static bool check_has_user(const struct relay_check *check)
{
    return check->name.data != NULL;
}

static void on_check_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay_check *check = user;
    check->question = NULL;
    if (verdict == PERMIT_UNAVAILABLE)
        check_stop(check, RELAY_CHECK_FAILED, BELFRY_GRPC_UNAVAILABLE, reason);
    else if (verdict == PERMIT_GRANTED && check->needs_auth)
        check_stop(check, RELAY_CHECK_REFUSED, BELFRY_GRPC_UNAVAILABLE, PERMIT_AUTH_IS_OFF);
    else if (check_has_user(check) && (verdict == PERMIT_REFUSED || vouch_passes(check->all->vouch)))
        check_vouch(check);
    else if (verdict == PERMIT_REFUSED && check->tokenless && check->needs_user)
        check_stop(check, RELAY_CHECK_REFUSED, BELFRY_GRPC_INVALID_ARGUMENT, RELAY_CHECK_NO_USER);
    else /* auth is off; or it is on, and the call goes upstream without a user */
        check_pass(check, (struct belfry_http_field){0});
}

void relay_check_init(struct relay_check *check, const struct relay_checks *all, const struct identity *who,
                      struct belfry_bytes path)
{
    bool logs_in = relay_rights_authenticates(path);
    *check = (struct relay_check){.all = all,
                                  .tokenless = who->kind != IDENTITY_TOKEN,
                                  .needs_auth = who->rights == LISTEN_RIGHTS_UPSTREAM,
                                  .needs_user = relay_rights_needs_user(path),
                                  .logs_in = logs_in};
    if (who->kind == IDENTITY_CERT && who->rights != LISTEN_RIGHTS_OPEN && !logs_in)
        check->name = who->text;
    vouch_wait_init(&check->wait, on_check_vouched);
}

void relay_check_end(struct relay_check *check)
{
    if (check->question != NULL)
        permit_cancel(check->question);
    check->question = NULL;
    vouch_wait_end(&check->wait);
}

bool relay_check_is_needed(const struct relay_check *check, uint64_t now_ms)
{
    const struct relay_checks *all = check->all;
    if (check->needs_auth && permit_auth(all->permit, now_ms) != PERMIT_AUTH_ON)
        return true;
    bool needs_voucher = check_has_user(check) && (all->vouch != NULL || check->needs_user);
    if (needs_voucher && vouch_passes(all->vouch))
        return true; /* the tier above has to know the user whatever this one believes of auth */
    return check->tokenless && !check->logs_in && (needs_voucher || uplink_may_have_name(all->uplink)) &&
           !permit_is_open(all->permit, now_ms);
}

enum belfry_err relay_check_begin(struct relay_check *check, uint64_t now_ms, relay_check_fn fn, void *user)
{
    check->fn = fn;
    check->user = user;
    return relay_check_auth(check->all, now_ms, on_check_verdict, check, &check->question);
}

void relay_check_is_old(const struct relay_check *check)
{
    if (check->revision != 0)
        vouch_outdate(check->all->vouch, check->revision);
}

enum belfry_err relay_check_auth(const struct relay_checks *all, uint64_t now_ms, permit_fn fn, void *user,
                                 struct permit_question **out)
{
    static const struct identity nobody;
    struct belfry_bytes none = {0};
    return permit_ask(all->permit, &nobody, none, none, now_ms, fn, user, out);
}
