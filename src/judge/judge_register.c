/* src/judge/judge_register.c */
#include "judge/judge_register.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/rng.h"

#define NONE SIZE_MAX

/* An operation as the search sees it. `next` and `prev` link those that have no moment yet, in the order of their
 * calls, behind a sentinel. An unlinked node keeps its own links, so relinking in the reverse order mends the list. */
struct node {
    struct judge_op op; /* end_ns of a put: not after the end of a read of it. mod_rev: also as learnt from reads */
    size_t index;       /* in the caller's array */
    size_t written_by;  /* of a read: the node of its put; NONE: it found nothing */
    size_t n_unread;    /* of a put: reads of it that have no moment yet */
    size_t n_reads;     /* of a put */
    uint64_t word;      /* its share in the fingerprint */
    size_t next, prev;
};

/* What the key is like after the operations that have moments. */
struct state {
    size_t put;            /* whose value is there; NONE: absent */
    int64_t rev;           /* the largest that was met */
    size_t n_puts, n_dels; /* spares that were used, from the first on */
    uint64_t taken;        /* exclusive or of the words of the operations that have moments, without spares */
};

/* A decision: which write comes next. Candidates that need a spare are tried after those that do not, so that what is
 * met first has cost few spares. */
struct frame {
    struct state before;
    size_t n_trail; /* operations that had moments before the decision, reads that fit included */
    enum pass { WITHOUT_SPARES, WITH_SPARES } pass;
    size_t candidate; /* the next to be tried in this pass */
    int64_t bound_ns; /* the first end of an operation without a moment: nothing called later can be next */
};

/* A configuration that was visited. The same with as many spares used, or more, leads nowhere either. */
struct visit {
    uint64_t print; /* 0: a free slot */
    size_t n_puts, n_dels;
};

struct search {
    /* fixed after prepare() */
    size_t n;                        /* nodes[0, n), by call; nodes[n] is the sentinel */
    struct node *nodes;              /* owned, like the arrays below */
    size_t *spare_puts, *spare_dels; /* open, and never read; by call */
    size_t n_spare_puts, n_spare_dels;
    /* moved by the search */
    struct state now;
    size_t *trail; /* nodes in the order of their moments, without spares */
    size_t n_trail;
    struct frame *frames; /* as many as there may be decisions */
    size_t n_frames;
    struct visit *visits; /* open addressing */
    size_t n_visits, n_slots;
    struct judge_register_result *result;
    size_t longest; /* trail */
};

/* ---- preparing ---- */

static int compare_calls(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->op.call_ns != y->op.call_ns)
        return x->op.call_ns < y->op.call_ns ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

struct value_at {
    uint64_t value;
    size_t node;
};

static int compare_values(const void *a, const void *b)
{
    const struct value_at *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static bool is_well_formed(const struct judge_op *op)
{
    if (op->end_ns < op->call_ns || op->mod_rev < 0 || (op->end_ns == JUDGE_OPEN && op->mod_rev != 0))
        return false;
    switch (op->kind) {
    case JUDGE_PUT:
        return op->value != JUDGE_ABSENT;
    case JUDGE_DELETE:
        return op->value == JUDGE_ABSENT;
    case JUDGE_GET:
        return op->end_ns != JUDGE_OPEN && (op->value != JUDGE_ABSENT || op->mod_rev == 0);
    }
    return false;
}

static void refuse(struct search *s, size_t node, const char *why)
{
    s->result->verdict = JUDGE_NOT_LINEARIZABLE;
    s->result->culprit = s->nodes[node].index;
    s->result->why = why;
}

/* Gives a read to its put, which learns from it. False: no put can have been read so. */
static bool pair_read(struct search *s, size_t read, size_t put)
{
    struct node *r = &s->nodes[read], *p = &s->nodes[put];
    r->written_by = put;
    p->n_reads++;
    p->n_unread++;
    if (r->op.end_ns < p->op.end_ns)
        p->op.end_ns = r->op.end_ns;
    if (p->op.mod_rev == 0)
        p->op.mod_rev = r->op.mod_rev;
    if (r->op.mod_rev != 0 && r->op.mod_rev != p->op.mod_rev) {
        refuse(s, read, "the value has another mod revision than its write or an earlier read says");
        return false;
    }
    if (p->op.end_ns < p->op.call_ns) {
        refuse(s, read, "the value was read before it was written");
        return false;
    }
    return true;
}

/* False: refused, or *err is set. */
static bool pair_reads(struct search *s, enum belfry_err *err)
{
    struct value_at *puts = calloc(s->n + 1, sizeof(*puts));
    bool fine = puts != NULL;
    *err = fine ? BELFRY_OK : BELFRY_ERR_NOMEM;
    size_t n_puts = 0;
    for (size_t i = 0; fine && i < s->n; i++) {
        if (s->nodes[i].op.kind == JUDGE_PUT)
            puts[n_puts++] = (struct value_at){s->nodes[i].op.value, i};
    }
    if (fine)
        qsort(puts, n_puts, sizeof(*puts), compare_values);
    for (size_t i = 1; fine && i < n_puts; i++) {
        fine = puts[i].value != puts[i - 1].value;
        *err = fine ? BELFRY_OK : BELFRY_ERR_INVALID;
    }
    for (size_t i = 0; fine && i < s->n; i++) {
        const struct judge_op *op = &s->nodes[i].op;
        if (op->kind != JUDGE_GET || op->value == JUDGE_ABSENT)
            continue;
        struct value_at wanted = {op->value, 0};
        const struct value_at *found = bsearch(&wanted, puts, n_puts, sizeof(*puts), compare_values);
        if (found == NULL)
            refuse(s, i, "the value was never written");
        fine = found != NULL && pair_read(s, i, found->node);
    }
    free(puts);
    return fine;
}

/* Links what must have a moment, and sets aside what need not. */
static void link_nodes(struct search *s)
{
    size_t last = s->n;
    for (size_t i = 0; i < s->n; i++) {
        struct node *node = &s->nodes[i];
        if (node->op.end_ns == JUDGE_OPEN) { /* a put that was read has an end by now */
            if (node->op.kind == JUDGE_PUT)
                s->spare_puts[s->n_spare_puts++] = i;
            else
                s->spare_dels[s->n_spare_dels++] = i;
            continue;
        }
        node->prev = last;
        s->nodes[last].next = i;
        last = i;
    }
    s->nodes[last].next = s->n;
    s->nodes[s->n].prev = last;
}

static enum belfry_err reserve(struct search *s)
{
    s->nodes = calloc(s->n + 1, sizeof(*s->nodes));
    s->trail = calloc(s->n + 1, sizeof(*s->trail));
    s->frames = calloc(s->n + 1, sizeof(*s->frames));
    s->spare_puts = calloc(s->n + 1, sizeof(*s->spare_puts));
    s->spare_dels = calloc(s->n + 1, sizeof(*s->spare_dels));
    bool fine = s->nodes && s->trail && s->frames && s->spare_puts && s->spare_dels;
    return fine ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static void release(struct search *s)
{
    free(s->nodes);
    free(s->trail);
    free(s->frames);
    free(s->spare_puts);
    free(s->spare_dels);
    free(s->visits);
}

static enum belfry_err load(struct search *s, const struct judge_op *ops)
{
    struct belfry_rng words = {1}; /* any: they only have to differ */
    for (size_t i = 0; i < s->n; i++) {
        if (!is_well_formed(&ops[i]))
            return BELFRY_ERR_INVALID;
        s->nodes[i] = (struct node){.op = ops[i], .index = i, .written_by = NONE, .word = belfry_rng_next(&words)};
    }
    qsort(s->nodes, s->n, sizeof(*s->nodes), compare_calls);
    return BELFRY_OK;
}

/* ---- moments ---- */

static void take(struct search *s, size_t i)
{
    struct node *node = &s->nodes[i];
    s->nodes[node->prev].next = node->next;
    s->nodes[node->next].prev = node->prev;
    if (node->written_by != NONE)
        s->nodes[node->written_by].n_unread--;
    s->now.taken ^= node->word;
    s->trail[s->n_trail++] = i;
}

static void take_back(struct search *s)
{
    size_t i = s->trail[--s->n_trail];
    struct node *node = &s->nodes[i];
    s->nodes[node->prev].next = i;
    s->nodes[node->next].prev = i;
    if (node->written_by != NONE)
        s->nodes[node->written_by].n_unread++;
}

/* Takes every read that fits and may be next; returns the first end of what is left. */
static int64_t take_reads(struct search *s)
{
    int64_t bound_ns = JUDGE_OPEN;
    for (size_t i = s->nodes[s->n].next, next; i != s->n && s->nodes[i].op.call_ns <= bound_ns; i = next) {
        const struct node *node = &s->nodes[i];
        next = node->next;
        if (node->op.kind == JUDGE_GET && node->written_by == s->now.put)
            take(s, i);
        else if (node->op.end_ns < bound_ns)
            bound_ns = node->op.end_ns;
    }
    return bound_ns;
}

static bool has_spare(const struct search *s, const size_t *spares, size_t n_spares, size_t n_used, int64_t bound_ns)
{
    return n_used < n_spares && s->nodes[spares[n_used]].op.call_ns <= bound_ns;
}

/* Uses the spare that makes an operation fit which does not without. False: there is none. */
static bool take_spare(struct search *s, const struct node *node, int64_t bound_ns)
{
    struct state *now = &s->now;
    if (node->op.kind == JUDGE_DELETE && has_spare(s, s->spare_puts, s->n_spare_puts, now->n_puts, bound_ns)) {
        now->n_puts++;
        return true;
    }
    if (node->op.kind == JUDGE_GET && node->written_by == NONE &&
        has_spare(s, s->spare_dels, s->n_spare_dels, now->n_dels, bound_ns)) {
        now->n_dels++;
        return true;
    }
    return false;
}

/* Makes the operation the next one; false: it cannot be, or not in this pass. */
static bool take_next(struct search *s, size_t i, enum pass pass, int64_t bound_ns)
{
    const struct node *node = &s->nodes[i];
    bool is_write = node->op.kind != JUDGE_GET, is_there = s->now.put != NONE;
    bool fits = node->op.kind == JUDGE_PUT || (node->op.kind == JUDGE_DELETE && is_there);
    if (is_there && s->nodes[s->now.put].n_unread > 0)
        return false;
    if (is_write && node->op.mod_rev != 0 && node->op.mod_rev <= s->now.rev)
        return false;
    if (pass == WITHOUT_SPARES ? !fits : fits || !take_spare(s, node, bound_ns))
        return false;
    take(s, i);
    s->now.put = node->op.kind == JUDGE_PUT ? i : NONE;
    if (is_write && node->op.mod_rev != 0)
        s->now.rev = node->op.mod_rev;
    return true;
}

/* ---- the memory of configurations ---- */

static uint64_t fingerprint(const struct search *s)
{
    struct belfry_rng mix = {s->now.taken ^ (s->now.put == NONE ? 0 : s->nodes[s->now.put].word << 1 | 1)};
    uint64_t print = belfry_rng_next(&mix);
    return print != 0 ? print : 1;
}

/* The slot of a visit after which this one is useless, or the free one for it. */
static struct visit *slot_of(struct visit *slots, size_t n_slots, const struct visit *visit)
{
    size_t i = visit->print & (n_slots - 1);
    while (slots[i].print != 0 &&
           !(slots[i].print == visit->print && slots[i].n_puts <= visit->n_puts && slots[i].n_dels <= visit->n_dels))
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static enum belfry_err grow_visits(struct search *s)
{
    size_t n_slots = s->n_slots == 0 ? 64 : s->n_slots * 2;
    struct visit *slots = calloc(n_slots, sizeof(*slots));
    if (slots == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < s->n_slots; i++) {
        if (s->visits[i].print != 0)
            *slot_of(slots, n_slots, &s->visits[i]) = s->visits[i];
    }
    free(s->visits);
    s->visits = slots;
    s->n_slots = n_slots;
    return BELFRY_OK;
}

static enum belfry_err remember(struct search *s, bool *is_new)
{
    enum belfry_err err = s->n_visits * 2 >= s->n_slots ? grow_visits(s) : BELFRY_OK;
    if (err != BELFRY_OK)
        return err;
    struct visit visit = {fingerprint(s), s->now.n_puts, s->now.n_dels};
    struct visit *slot = slot_of(s->visits, s->n_slots, &visit);
    *is_new = slot->print == 0;
    if (*is_new)
        *slot = visit;
    s->n_visits += *is_new;
    return BELFRY_OK;
}

/* ---- the search ---- */

/* Notes what stood in the way when the order was the longest so far. */
static void note_longest(struct search *s, int64_t bound_ns)
{
    if (s->n_trail < s->longest || s->nodes[s->n].next == s->n)
        return;
    s->longest = s->n_trail;
    size_t i = s->nodes[s->n].next;
    while (s->nodes[i].op.end_ns != bound_ns)
        i = s->nodes[i].next;
    s->result->culprit = s->nodes[i].index;
}

static enum belfry_err push(struct search *s)
{
    int64_t bound_ns = take_reads(s);
    bool is_new;
    enum belfry_err err = remember(s, &is_new);
    if (err != BELFRY_OK)
        return err;
    note_longest(s, bound_ns);
    s->result->n_steps++;
    enum pass pass = is_new ? WITHOUT_SPARES : WITH_SPARES; /* a known configuration has nothing to try */
    size_t first = is_new ? s->nodes[s->n].next : s->n;
    s->frames[s->n_frames++] = (struct frame){s->now, s->n_trail, pass, first, bound_ns};
    return BELFRY_OK;
}

/* Tries the next candidate of the last decision, or gives the decision up. */
static enum belfry_err step(struct search *s)
{
    struct frame *frame = &s->frames[s->n_frames - 1];
    while (s->n_trail > frame->n_trail)
        take_back(s);
    s->now = frame->before;
    size_t i = frame->candidate;
    bool is_over = i == s->n || s->nodes[i].op.call_ns > frame->bound_ns;
    if (is_over && frame->pass == WITH_SPARES) {
        s->n_frames--;
        return BELFRY_OK;
    }
    if (is_over) {
        frame->pass = WITH_SPARES;
        frame->candidate = s->nodes[s->n].next;
        return BELFRY_OK;
    }
    frame->candidate = s->nodes[i].next;
    return take_next(s, i, frame->pass, frame->bound_ns) ? push(s) : BELFRY_OK;
}

static enum belfry_err search_run(struct search *s, size_t max_steps)
{
    s->now = (struct state){.put = NONE};
    enum belfry_err err = push(s);
    while (err == BELFRY_OK && s->nodes[s->n].next != s->n) {
        if (s->n_frames == 0) {
            s->result->verdict = JUDGE_NOT_LINEARIZABLE;
            s->result->why = "no order of the operations gives these answers";
            return BELFRY_OK;
        }
        if (s->result->n_steps >= max_steps) {
            s->result->verdict = JUDGE_UNDECIDED;
            return BELFRY_OK;
        }
        err = step(s);
    }
    return err;
}

enum belfry_err judge_register(const struct judge_op *ops, size_t n_ops, size_t max_steps,
                               struct judge_register_result *out)
{
    struct judge_register_result result = {.verdict = JUDGE_LINEARIZABLE, .why = ""};
    struct search s = {.n = n_ops, .result = &result};
    enum belfry_err err = reserve(&s);
    if (err == BELFRY_OK)
        err = load(&s, ops);
    if (err == BELFRY_OK && pair_reads(&s, &err)) {
        link_nodes(&s);
        err = search_run(&s, max_steps);
    }
    release(&s);
    if (err == BELFRY_OK)
        *out = result;
    return err;
}
