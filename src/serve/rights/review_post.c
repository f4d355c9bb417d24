/* src/serve/rights/review_post.c */
#include "serve/rights/review_post.h"

#include <stdlib.h>

#include "base/owner.h"

struct review_post {
    /* fixed at creation */
    struct uplink_call *call;
    review_post_fn fn;
    void *user;
    /* owner */
    unsigned pin;
    struct belfry_buf out; /* the question; taken as it is sent */
    struct belfry_buf in;  /* the answer so far */
    int status;            /* 0: not known */
    bool is_too_long, is_starved;
    BELFRY_OWNER;
};

/* A TokenReview and its answer have the token of a client. */
static void review_post_wipe(struct belfry_buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    belfry_buf_fini(buf);
}

static void review_post_free(struct review_post *post)
{
    review_post_wipe(&post->out);
    review_post_wipe(&post->in);
    free(post);
}

static void review_post_answer(struct review_post *post, const struct review_post_answer *answer)
{
    post->fn(answer, post->user);
    review_post_free(post);
}

/* The response is complete. */
static void review_post_conclude(struct review_post *post)
{
    struct review_post_answer answer = {.status = post->status, .body = belfry_buf_bytes(&post->in), .why = ""};
    uplink_close(post->call);
    if (post->is_starved)
        answer = (struct review_post_answer){.why = belfry_strerror(BELFRY_ERR_NOMEM)};
    else if (post->is_too_long)
        answer = (struct review_post_answer){.why = "the answer is too long"};
    else if (post->status == 0)
        answer = (struct review_post_answer){.why = "the answer has no status"};
    review_post_answer(post, &answer);
}

static void on_post_field(struct uplink_call *call, struct belfry_bytes name, struct belfry_bytes value, void *user)
{
    struct review_post *post = user;
    (void)call;
    if (!belfry_bytes_equal(name, belfry_bytes_str(":status")) || value.len != 3)
        return;
    post->status = 0;
    for (size_t i = 0; i < value.len; i++)
        post->status = post->status * 10 + (value.data[i] - '0');
}

static void on_post_block(struct uplink_call *call, bool last, void *user)
{
    (void)call;
    if (last)
        review_post_conclude(user);
}

static void on_post_data(struct uplink_call *call, struct belfry_bytes bytes, void *user)
{
    struct review_post *post = user;
    uplink_taken(call, bytes.len);
    post->is_too_long = post->is_too_long || belfry_buf_len(&post->in) + bytes.len > REVIEW_ANSWER_MAX;
    if (!post->is_too_long && belfry_buf_append(&post->in, bytes.data, bytes.len) != BELFRY_OK)
        post->is_starved = true;
}

static void on_post_end(struct uplink_call *call, void *user)
{
    (void)call;
    review_post_conclude(user);
}

static size_t on_post_read(struct uplink_call *call, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    struct review_post *post = user;
    struct belfry_bytes left = belfry_buf_bytes(&post->out);
    (void)call;
    size_t n = left.len < cap ? left.len : cap;
    if (n > 0)
        memcpy(to, left.data, n);
    belfry_buf_take(&post->out, n);
    *out_end = n == left.len;
    return n;
}

static void on_post_closed(struct uplink_call *call, const struct uplink_end *end, void *user)
{
    (void)call;
    review_post_answer(user, &(struct review_post_answer){.why = end->why});
}

static const struct uplink_events events = {.field = on_post_field,
                                            .block = on_post_block,
                                            .data = on_post_data,
                                            .end = on_post_end,
                                            .read = on_post_read,
                                            .closed = on_post_closed};

static enum belfry_err review_post_send(struct review_post *post, const struct review_post_opts *opts)
{
    const struct belfry_http_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str("application/json")},
                                               {belfry_bytes_str("accept"), belfry_bytes_str("application/json")},
                                               {belfry_bytes_str("user-agent"), belfry_bytes_str("belfryd")},
                                               {belfry_bytes_str("authorization"), opts->authorization}};
    size_t n_fields = sizeof(fields) / sizeof(fields[0]) - (opts->authorization.data == NULL);
    struct uplink_request request = {
        .path = belfry_bytes_str(opts->path), .fields = fields, .n_fields = n_fields, .caller = UPLINK_CALLER_ANYONE};
    return uplink_open(opts->uplink, &post->pin, &request, &events, post, &post->call);
}

enum belfry_err review_post_open(const struct review_post_opts *opts, struct review_post **out)
{
    struct review_post *post = calloc(1, sizeof(*post));
    if (post == NULL) {
        belfry_buf_fini(opts->body);
        return BELFRY_ERR_NOMEM;
    }
    *post = (struct review_post){.fn = opts->fn, .user = opts->user, .pin = opts->pin, .out = *opts->body};
    belfry_buf_init(opts->body);
    BELFRY_OWNER_INIT(post);
    enum belfry_err err = review_post_send(post, opts);
    if (err != BELFRY_OK) {
        review_post_free(post);
        return err;
    }
    *out = post;
    return BELFRY_OK;
}

void review_post_cancel(struct review_post *post)
{
    if (post == NULL)
        return;
    BELFRY_OWNER_CHECK(post);
    uplink_close(post->call);
    review_post_free(post);
}
