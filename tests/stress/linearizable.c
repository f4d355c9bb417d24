/* tests/stress/linearizable.c
 *
 * Judges what the clients of a store with revisions were answered.
 *
 *     linearizable RECORD ...
 *
 * The records are one history, on one clock. Each line is a call; times and revisions are decimal, END is "-" if the
 * outcome of a write is not known:
 *
 *     put KEY VALUE REV CALL END              VALUE: a number over 0 that no other put writes. REV: of the answer, or 0
 *     delete KEY DELETED REV CALL END         DELETED: 1 if the key was there
 *     get KEY VALUE MOD REV CALL END          VALUE: 0 if the key was not there. MOD: its mod revision
 *     serializable CLIENT CONNECTION REV CALL END
 *
 * What must hold, with the name under which a violation is printed:
 *
 *     linearizable    puts, deletes and gets of each key (judge/judge_register.h)
 *     recent          no put, delete or get tells an older revision than one that had ended before it was called;
 *                     a write that changed something tells a newer one
 *     forward         on one connection, serializable reads never go back in revision. A client has one call at a time
 *
 * Prints one line per violation, then the counts. Exit 0: no violation; 1: some, or a key whose search was too long;
 * 2: a line is not understood.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/judge_recency.h"
#include "judge/judge_register.h"

#define KEYS_MAX    4096
#define CLIENTS_MAX 256
#define LINE_BYTES  256
#define MAX_STEPS   4000000

struct call {
    struct judge_op op;
    int64_t rev; /* of the answer's header; 0: none */
};

struct calls {
    struct call *at; /* owned */
    size_t n, n_slots;
};

static struct calls keys[KEYS_MAX];
static struct {
    uint64_t connection;
    int64_t rev;
} serializable[CLIENTS_MAX]; /* the last one of each client */
static uint64_t n_calls, n_reads, n_open, n_serializable, n_violations, n_steps;

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void calls_add(struct calls *calls, struct call call)
{
    if (calls->n == calls->n_slots) {
        calls->n_slots = calls->n_slots * 2 + 64;
        calls->at = must(realloc(calls->at, calls->n_slots * sizeof(*calls->at)));
    }
    calls->at[calls->n++] = call;
    n_calls++;
}

/* ---- reading ---- */

/* Decimal numbers, or "-" for JUDGE_OPEN, until the end of the line; how many, or 0: not understood. */
static size_t read_numbers(char *text, int64_t numbers[6])
{
    size_t n = 0;
    for (char *word = strtok(text, " \n"), *end; word != NULL; word = strtok(NULL, " \n")) {
        if (n == 6)
            return 0;
        numbers[n] = strcmp(word, "-") == 0 ? JUDGE_OPEN : strtoll(word, &end, 10);
        if (numbers[n] < 0 || (numbers[n] != JUDGE_OPEN && *end != 0))
            return 0;
        n++;
    }
    return n;
}

static bool read_write(bool is_put, const int64_t n[5])
{
    bool is_open = n[4] == JUDGE_OPEN, found = is_put || is_open || n[1] != 0;
    struct judge_op op = {.kind = is_put  ? JUDGE_PUT
                                  : found ? JUDGE_DELETE
                                          : JUDGE_GET,
                          .value = is_put ? (uint64_t)n[1] : JUDGE_ABSENT,
                          .mod_rev = found ? n[2] : 0,
                          .call_ns = n[3],
                          .end_ns = n[4]};
    n_open += is_open;
    calls_add(&keys[n[0]], (struct call){op, n[2]});
    return is_open == (n[2] == 0);
}

static bool read_get(const int64_t n[6])
{
    struct judge_op op = {JUDGE_GET, (uint64_t)n[1], n[2], n[4], n[5]};
    n_reads++;
    calls_add(&keys[n[0]], (struct call){op, n[3]});
    return n[5] != JUDGE_OPEN;
}

static bool read_serializable(const int64_t n[5])
{
    if (n[0] >= CLIENTS_MAX)
        return false;
    if (serializable[n[0]].connection == (uint64_t)n[1] && serializable[n[0]].rev > n[2]) {
        printf("forward: client %" PRId64 ", connection %" PRId64 ": revision %" PRId64 " after %" PRId64
               ", call %" PRId64 "\n",
               n[0], n[1], n[2], serializable[n[0]].rev, n[3]);
        n_violations++;
    }
    n_serializable++;
    serializable[n[0]].connection = (uint64_t)n[1];
    serializable[n[0]].rev = n[2];
    return true;
}

static bool read_line(char *line)
{
    int64_t n[6];
    char *space = strchr(line, ' ');
    if (space == NULL)
        return false;
    *space = 0;
    size_t count = read_numbers(space + 1, n);
    if (count == 5 && strcmp(line, "serializable") == 0)
        return read_serializable(n);
    if (count == 0 || n[0] >= KEYS_MAX)
        return false;
    if (count == 5 && (strcmp(line, "put") == 0 || strcmp(line, "delete") == 0))
        return read_write(line[0] == 'p', n);
    return count == 6 && strcmp(line, "get") == 0 && read_get(n);
}

static bool read_record(const char *path)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return false;
    }
    uint64_t number = 0;
    bool fine = true;
    memset(serializable, 0, sizeof(serializable)); /* clients are numbered in each record */
    while (fine && fgets(line, sizeof(line), file) != NULL) {
        number++;
        fine = read_line(line);
    }
    if (!fine)
        fprintf(stderr, "linearizable: %s:%" PRIu64 ": not understood\n", path, number);
    fclose(file);
    return fine;
}

/* ---- judging ---- */

static void print_call(const char *head, const struct call *call)
{
    static const char *const kinds[] = {[JUDGE_PUT] = "put", [JUDGE_DELETE] = "delete", [JUDGE_GET] = "get"};
    printf("%s %s of %" PRIu64 " (mod revision %" PRId64 ", header %" PRId64 ") from %" PRId64, head,
           kinds[call->op.kind], call->op.value, call->op.mod_rev, call->rev, call->op.call_ns);
    if (call->op.end_ns == JUDGE_OPEN)
        printf(", without answer");
    else
        printf(" to %" PRId64, call->op.end_ns);
}

/* What was under way or just before, so that a person can see the contradiction. */
static void print_around(const struct calls *calls, const struct call *culprit)
{
    const int64_t span_ns = 20000000;
    for (size_t i = 0; i < calls->n; i++) {
        const struct call *call = &calls->at[i];
        bool is_near = call->op.call_ns <= culprit->op.end_ns && call->op.end_ns >= culprit->op.call_ns - span_ns;
        bool is_same = call->op.value == culprit->op.value && call->op.kind == JUDGE_PUT;
        if ((is_near && call->op.end_ns != JUDGE_OPEN) || is_same) {
            print_call("   ", call);
            printf("\n");
        }
    }
}

static bool judge_key(size_t key)
{
    struct calls *calls = &keys[key];
    struct judge_op *ops = must(calloc(calls->n + 1, sizeof(*ops)));
    for (size_t i = 0; i < calls->n; i++)
        ops[i] = calls->at[i].op;
    struct judge_register_result result = {.verdict = JUDGE_UNDECIDED};
    enum belfry_err err = judge_register(ops, calls->n, MAX_STEPS, &result);
    free(ops);
    n_steps += result.n_steps;
    if (err != BELFRY_OK) {
        fprintf(stderr, "linearizable: key %zu: the history is not valid\n", key);
        return false;
    }
    if (result.verdict == JUDGE_LINEARIZABLE)
        return true;
    n_violations++;
    if (result.verdict == JUDGE_UNDECIDED) {
        printf("linearizable: key %zu: undecided after %zu steps\n", key, result.n_steps);
        return true;
    }
    printf("linearizable: key %zu: %s:", key, result.why);
    print_call("", &calls->at[result.culprit]);
    printf("; around it:\n");
    print_around(calls, &calls->at[result.culprit]);
    return true;
}

static void judge_revisions(void)
{
    struct judge_answer *answers = must(calloc(n_calls + 1, sizeof(*answers)));
    const struct call **of = must(calloc(n_calls + 1, sizeof(*of)));
    size_t n = 0;
    for (size_t key = 0; key < KEYS_MAX; key++) {
        for (size_t i = 0; i < keys[key].n; i++) {
            const struct call *call = &keys[key].at[i];
            if (call->op.end_ns == JUDGE_OPEN)
                continue;
            answers[n] =
                (struct judge_answer){call->op.call_ns, call->op.end_ns, call->rev, call->op.kind != JUDGE_GET};
            of[n++] = call;
        }
    }
    struct judge_recency_result result;
    if (judge_recency(answers, n, &result) != BELFRY_OK)
        abort();
    if (result.n_stale > 0) {
        printf("recent: %zu answers are older than one that had ended before; the first:", result.n_stale);
        print_call("", of[result.stale]);
        print_call("; before it", of[result.newer]);
        printf("\n");
    }
    n_violations += result.n_stale;
    free(answers);
    free(of);
}

int main(int argc, char **argv)
{
    bool fine = argc > 1;
    if (!fine)
        fprintf(stderr, "usage: linearizable RECORD ...\n");
    for (int i = 1; fine && i < argc; i++)
        fine = read_record(argv[i]);
    size_t n_keys = 0;
    for (size_t key = 0; fine && key < KEYS_MAX; key++) {
        n_keys += keys[key].n > 0;
        fine = keys[key].n == 0 || judge_key(key);
    }
    if (fine) {
        judge_revisions();
        printf("calls=%" PRIu64 " reads=%" PRIu64 " open=%" PRIu64 " keys=%zu serializable=%" PRIu64 " steps=%" PRIu64
               " violations=%" PRIu64 "\n",
               n_calls, n_reads, n_open, n_keys, n_serializable, n_steps, n_violations);
    }
    for (size_t key = 0; key < KEYS_MAX; key++)
        free(keys[key].at);
    return !fine ? 2 : n_violations > 0;
}
