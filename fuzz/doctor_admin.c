/* fuzz/doctor_admin.c: any bytes as a page of an admin address, read by belfryctl doctor and judged. Every text that is
 * kept ends within its room. */
#include <stdint.h>
#include <string.h>

#include "cli/doctor/doctor_admin.h"
#include "cli/doctor/doctor_steps.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct doctor_facts facts;

#define ENDS(text) check(memchr(text, '\0', sizeof(text)) != NULL)

static void check_admin(const struct doctor_admin *a)
{
    ENDS(a->name);
    ENDS(a->standing);
    ENDS(a->reason);
    ENDS(a->scope);
    ENDS(a->client);
    ENDS(a->lag_why);
    ENDS(a->rights_why);
    ENDS(a->rights_hint);
    ENDS(a->verdict);
    ENDS(a->ready_why);
    ENDS(a->ready_hint);
    ENDS(a->lost_why);
    ENDS(a->lost_hint);
    ENDS(a->upstream_hint);
    ENDS(a->resource_why);
    ENDS(a->resource_hint);
    check(a->n_endpoints <= DOCTOR_ENDPOINTS && a->n_levels <= DOCTOR_LEVELS && a->n_troubles <= DOCTOR_POOLS);
    for (size_t i = 0; i < a->n_levels; i++)
        ENDS(a->levels[i].name);
    for (size_t i = 0; i < a->n_troubles; i++)
        ENDS(a->troubles[i]);
}

static void judge_all(void)
{
    enum doctor_result results[N_STEPS];
    struct doctor_verdict verdict;
    for (enum doctor_step_id step = 0; step < N_STEPS; step++) {
        doctor_judge(step, &facts, results, &verdict);
        results[step] = verdict.result;
        ENDS(verdict.what);
        ENDS(verdict.remedy);
    }
}

/* The first byte chooses the page. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t clock_ms;
    if (size == 0)
        return 0;
    struct belfry_bytes page = {(const char *)data + 1, size - 1};
    enum belfry_err err = BELFRY_OK;
    memset(&facts, 0, sizeof(facts));
    facts.admin.asked = true;
    switch (data[0] & 3) {
    case 0:
        err = doctor_admin_read_numbers(page, &facts.admin, &clock_ms);
        break;
    case 1:
        err = doctor_admin_read_tree(page, &facts.admin);
        break;
    case 2:
        err = doctor_admin_read_clients(page, &facts.admin);
        break;
    default:
        doctor_admin_read_ready(page, &facts.admin);
        break;
    }
    check(err == BELFRY_OK || err == BELFRY_ERR_PROTOCOL);
    check_admin(&facts.admin);
    judge_all();
    return 0;
}
