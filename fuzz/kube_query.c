/* fuzz/kube_query.c: any bytes as the query of a Kubernetes list, get or watch. What is read lies in memory of its own
 * and within its bounds; what is refused says why, with a code that fits; a plan is one of the tables'. */
#include <stdint.h>

#include "fuzz/check.h"
#include "kube/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(enum belfry_err err, const struct kube_status *status)
{
    struct belfry_buf text;
    check(err == BELFRY_ERR_INVALID);
    check(status->message[0] != '\0' && memchr(status->message, '\0', sizeof(status->message)) != NULL);
    check(status->reason == KUBE_BAD_REQUEST || status->reason == KUBE_INVALID);
    check((status->reason == KUBE_INVALID) == (status->n_causes > 0));
    belfry_buf_init(&text);
    check(kube_status_write(status, &text) == BELFRY_OK);
    belfry_buf_fini(&text);
}

static void check_text(const struct kube_options *options, struct belfry_bytes text)
{
    struct belfry_bytes all = belfry_buf_bytes(&options->text);
    check(text.len == 0 || (text.data >= all.data && text.data + text.len <= all.data + all.len));
}

static void check_list(const struct kube_options *options)
{
    struct kube_status status;
    struct kube_list_plan plan;
    enum belfry_err err = kube_plan_list(options, &plan, &status);
    if (err != BELFRY_OK) {
        check_refusal(err, &status);
        return;
    }
    check(plan.limit == (plan.read == KUBE_READ_ANY ? 0 : options->limit));
    check((plan.rev > 0) == (plan.read == KUBE_READ_NOT_OLDER || plan.read == KUBE_READ_EXACT));
    check((plan.read == KUBE_READ_CONTINUE) == (options->continue_token.len > 0));
    check(options->send_initial == KUBE_FLAG_UNSET && options->match != KUBE_MATCH_UNKNOWN);
}

static void check_get(const struct kube_options *options)
{
    struct kube_status status;
    struct kube_list_plan plan;
    enum belfry_err err = kube_plan_get(options, &plan, &status);
    if (err != BELFRY_OK) {
        check_refusal(err, &status);
        return;
    }
    check(plan.limit == 0 && plan.read <= KUBE_READ_LATEST);
    check((plan.rev > 0) == (plan.read == KUBE_READ_NOT_OLDER));
}

static void check_watch(const struct kube_options *options)
{
    struct kube_status status;
    struct kube_watch_plan plan;
    enum belfry_err err = kube_plan_watch(options, &plan, &status);
    if (err != BELFRY_OK) {
        check_refusal(err, &status);
        check(status.reason == KUBE_INVALID);
        return;
    }
    check(plan.mark_end == (plan.state_first && plan.bookmarks));
    check(plan.read != (plan.state_first ? KUBE_READ_EXACT : KUBE_READ_NOT_OLDER) && plan.read != KUBE_READ_CONTINUE);
    check((plan.rev > 0) == (plan.read == KUBE_READ_NOT_OLDER || plan.read == KUBE_READ_EXACT));
    check(plan.timeout_ms <= UINT64_C(1000) * KUBE_TIMEOUT_MAX_S);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_options options;
    struct kube_status status;
    enum belfry_err err = kube_options_read(belfry_bytes_of(data, size), &options, &status);
    if (err == BELFRY_OK) {
        check(belfry_buf_len(&options.text) <= size);
        check_text(&options, options.label_selector);
        check_text(&options, options.field_selector);
        check_text(&options, options.continue_token);
        check_text(&options, options.resource_version);
        check_text(&options, options.match_text);
        check(options.limit >= 0 && options.timeout_s >= 0 && options.include <= KUBE_INCLUDE_OBJECT);
        check_list(&options);
        check_get(&options);
        check_watch(&options);
    } else {
        check_refusal(err, &status);
    }
    kube_options_fini(&options);
    return 0;
}
