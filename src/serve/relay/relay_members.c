/* src/serve/relay/relay_members.c */
#include "serve/relay/relay_members.h"

#include <stdlib.h>

#include "net/grpc_frame.h"
#include "net/gzip.h"
#include "wire/rpc.pb-c.h"

/* So that protobuf-c allocates by malloc(), which tests refuse. */
static void *message_alloc(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void message_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static enum belfry_err pack_response(const Etcdserverpb__MemberListResponse *response, struct belfry_buf *out)
{
    size_t len = etcdserverpb__member_list_response__get_packed_size(response);
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(out, BELFRY_GRPC_PREFIX_BYTES + len, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_grpc_frame_prefix(to, len);
    etcdserverpb__member_list_response__pack(response, to + BELFRY_GRPC_PREFIX_BYTES);
    belfry_buf_grown(out, BELFRY_GRPC_PREFIX_BYTES + len);
    return BELFRY_OK;
}

/* Packs the response with other URLs. protobuf-c frees the strings that it made, so they are put back afterwards. */
static enum belfry_err pack_with_urls(Etcdserverpb__MemberListResponse *response, const char *advertise,
                                      struct belfry_buf *out)
{
    struct urls {
        size_t n;
        char **list;
    } *kept = calloc(response->n_members + 1, sizeof(*kept));
    if (kept == NULL)
        return BELFRY_ERR_NOMEM;
    char *ours = (char *)(uintptr_t)advertise; /* packing only reads it */
    for (size_t i = 0; i < response->n_members; i++) {
        Etcdserverpb__Member *member = response->members[i];
        kept[i] = (struct urls){member->n_clienturls, member->clienturls};
        if (member->n_clienturls == 0)
            continue; /* it has not started yet: clients recognize it by that */
        member->n_clienturls = 1;
        member->clienturls = &ours;
    }
    enum belfry_err err = pack_response(response, out);
    for (size_t i = 0; i < response->n_members; i++) {
        response->members[i]->n_clienturls = kept[i].n;
        response->members[i]->clienturls = kept[i].list;
    }
    free(kept);
    return err;
}

static enum belfry_err rewrite_message(struct belfry_bytes message, const char *advertise, struct belfry_buf *out)
{
    ProtobufCAllocator allocator = {message_alloc, message_free, NULL};
    Etcdserverpb__MemberListResponse *response =
        etcdserverpb__member_list_response__unpack(&allocator, message.len, (const uint8_t *)message.data);
    if (response == NULL)
        return BELFRY_ERR_PROTOCOL;
    enum belfry_err err = pack_with_urls(response, advertise, out);
    etcdserverpb__member_list_response__free_unpacked(response, &allocator);
    return err;
}

enum belfry_err relay_members_rewrite(struct belfry_bytes body, const char *advertise, struct belfry_buf *out)
{
    const uint8_t *p = (const uint8_t *)body.data;
    if (body.len < BELFRY_GRPC_PREFIX_BYTES || p[0] > 1)
        return BELFRY_ERR_PROTOCOL;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (len != body.len - BELFRY_GRPC_PREFIX_BYTES)
        return BELFRY_ERR_PROTOCOL;
    struct belfry_bytes message = belfry_bytes_of(p + BELFRY_GRPC_PREFIX_BYTES, len);
    if (p[0] == 0)
        return rewrite_message(message, advertise, out);
    struct belfry_blob *unpacked;
    enum belfry_err err = belfry_gzip_unpack(message, RELAY_MEMBERS_BYTES, &unpacked);
    if (err != BELFRY_OK)
        return err;
    err = rewrite_message(belfry_blob_bytes(unpacked), advertise, out);
    belfry_blob_unref(unpacked);
    return err;
}
