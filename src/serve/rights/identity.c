/* src/serve/rights/identity.c */
#include "serve/rights/identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>

#include "base/hash.h"
#include "base/pack.h"
#include "base/utf8.h"

/* ---- tags ---- */

static pthread_once_t tag_key_once = PTHREAD_ONCE_INIT;
static struct belfry_hash_key tag_key;

static void make_tag_key(void)
{
    tag_key = belfry_hash_key_draw();
}

static uint32_t tag_of(struct belfry_bytes token)
{
    pthread_once(&tag_key_once, make_tag_key);
    return (uint32_t)belfry_hash(tag_key, token) & 0xffffff;
}

/* ---- names of tokens ---- */

#define NAME_BYTES IDENTITY_SHOWN /* of a name that are kept: more than are shown, so a cut name is shown as one */

/* A name is where the hash of its token says: one that was there before goes. Process-wide, as the tags are: a worker
 * shows what another has learned. */
static struct {
    uint64_t hash; /* 0: free */
    size_t len;
    char name[NAME_BYTES];
} names[IDENTITY_NAMES];
static pthread_mutex_t names_mu = PTHREAD_MUTEX_INITIALIZER;

static uint64_t name_hash(struct belfry_bytes token)
{
    pthread_once(&tag_key_once, make_tag_key);
    uint64_t hash = belfry_hash(tag_key, token);
    return hash != 0 ? hash : 1;
}

void identity_learn(struct belfry_bytes token, struct belfry_bytes name)
{
    uint64_t hash = name_hash(token), at = (hash >> 32) % IDENTITY_NAMES;
    size_t len = name.len < NAME_BYTES ? name.len : NAME_BYTES;
    pthread_mutex_lock(&names_mu);
    names[at].hash = hash;
    names[at].len = len;
    if (len > 0)
        memcpy(names[at].name, name.data, len);
    pthread_mutex_unlock(&names_mu);
}

/* The length of the name; 0: it is not known. */
static size_t find_name(struct belfry_bytes token, char out[NAME_BYTES])
{
    uint64_t hash = name_hash(token), at = (hash >> 32) % IDENTITY_NAMES;
    size_t len = 0;
    pthread_mutex_lock(&names_mu);
    if (names[at].hash == hash) {
        len = names[at].len;
        memcpy(out, names[at].name, len);
    }
    pthread_mutex_unlock(&names_mu);
    return len;
}

/* ---- reading ---- */

struct identity identity_of_token(enum identity_field field, struct belfry_bytes token)
{
    return (struct identity){.kind = IDENTITY_TOKEN, .field = field, .tag = tag_of(token), .text = token};
}

/* The token of "Authorization: Bearer TOKEN"; {NULL, 0}: there is none. */
static struct belfry_bytes bearer_of(struct belfry_bytes authorization)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof(scheme) - 1;
    bool is_bearer = authorization.len > len && strncasecmp(authorization.data, scheme, len) == 0;
    return is_bearer ? belfry_bytes_of(authorization.data + len, authorization.len - len) : (struct belfry_bytes){0};
}

/* ---- users that tiers below pass on ---- */

enum passing { PASSED_NONE, PASSED, PASSED_REFUSED };

/* Of the only field; *out_why says why it is refused. */
static enum passing passed_value(const struct exchange_head *head, struct belfry_bytes *out, const char **out_why)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!belfry_bytes_equal(head->fields[i].name, belfry_bytes_str(IDENTITY_USER_FIELD)))
            continue;
        *out = head->fields[i].value;
        n++;
    }
    if (n > 1)
        *out_why = "belfry: a request has one " IDENTITY_USER_FIELD " at most";
    return n == 0 ? PASSED_NONE : n == 1 ? PASSED : PASSED_REFUSED;
}

/* May this connection say for which user it asks? */
static bool may_pass(const struct exchange_conn *conn)
{
    const struct listen_policy *policy = conn->policy;
    return policy != NULL && conn->user != NULL && listen_names_have(&policy->users_from, conn->user);
}

/* "NAME", with the quotes. */
static bool read_name(struct belfry_bytes value, struct belfry_bytes *out)
{
    if (value.len < 3 || value.len > IDENTITY_FIELD_BYTES || value.data[0] != '"' || value.data[value.len - 1] != '"')
        return false;
    *out = belfry_bytes_of(value.data + 1, value.len - 2);
    for (size_t i = 0; i < out->len; i++) {
        unsigned char c = (unsigned char)out->data[i];
        if (c < 0x20 || c == 0x7f || c == '"')
            return false;
    }
    return belfry_utf8_valid(out->data, out->len);
}

static enum passing read_passed(const struct exchange_conn *conn, const struct exchange_head *head,
                                struct belfry_bytes *out, const char **out_why)
{
    struct belfry_bytes value = {0};
    enum passing passing = passed_value(head, &value, out_why);
    if (passing != PASSED)
        return passing;
    if (!may_pass(conn))
        *out_why = "belfry: " IDENTITY_USER_FIELD " is taken only from tiers whose certificate the listener names "
                   "(users-from)";
    else if (exchange_field(head, "token").data != NULL || exchange_field(head, "authorization").data != NULL)
        *out_why = "belfry: a request has a token or a " IDENTITY_USER_FIELD ", not both";
    else if (!read_name(value, out))
        *out_why = "belfry: " IDENTITY_USER_FIELD " has no name that a certificate may have";
    else
        return PASSED;
    return PASSED_REFUSED;
}

const char *identity_refuses(const struct exchange *x, const struct exchange_head *head)
{
    struct belfry_bytes ignored;
    const char *why = NULL;
    return read_passed(exchange_conn(x), head, &ignored, &why) == PASSED_REFUSED ? why : NULL;
}

struct belfry_http_field identity_field_of_user(struct belfry_bytes user, char text[IDENTITY_FIELD_BYTES])
{
    assert(user.len > 0 && user.len <= IDENTITY_USER_BYTES);
    text[0] = text[user.len + 1] = '"';
    memcpy(text + 1, user.data, user.len);
    return (struct belfry_http_field){belfry_bytes_str(IDENTITY_USER_FIELD), belfry_bytes_of(text, user.len + 2)};
}

/* ---- any user ---- */

static struct identity read_who(const struct exchange_conn *conn, const struct exchange_head *head,
                                enum identity_dialect dialect)
{
    struct belfry_bytes token = {0}, authorization = exchange_field(head, "authorization");
    switch (dialect) {
    case IDENTITY_OF_GRPC:
        token = exchange_field(head, "token");
        break;
    case IDENTITY_OF_KUBE:
        authorization = bearer_of(authorization);
        break;
    }
    if (token.data != NULL)
        return identity_of_token(IDENTITY_FIELD_TOKEN, token);
    if (authorization.data != NULL)
        return identity_of_token(IDENTITY_FIELD_AUTHORIZATION, authorization);
    bool is_named = conn->user != NULL && conn->user[0] != '\0';
    if (is_named && exchange_field(head, "grpcgateway-accept").data == NULL)
        return (struct identity){.kind = IDENTITY_CERT, .text = belfry_bytes_str(conn->user)};
    return (struct identity){.kind = IDENTITY_NONE};
}

struct identity identity_read(const struct exchange *x, const struct exchange_head *head, enum identity_dialect dialect)
{
    const struct exchange_conn *conn = exchange_conn(x);
    const struct listen_policy *policy = conn->policy;
    struct identity identity = {.kind = IDENTITY_CERT};
    const char *why;
    enum passing passing = read_passed(conn, head, &identity.text, &why);
    if (passing == PASSED_REFUSED)
        return (struct identity){.kind = IDENTITY_NONE, .rights = LISTEN_RIGHTS_UPSTREAM};
    if (passing == PASSED_NONE)
        identity = read_who(conn, head, dialect);
    identity.rights = policy != NULL ? policy->rights : LISTEN_RIGHTS_ASKED;
    identity.source = (struct lanes_source){conn->id, shares_source(&conn->share)};
    identity.share = exchange_share(x);
    return identity;
}

const char *identity_field_name(const struct identity *identity)
{
    if (identity->kind != IDENTITY_TOKEN)
        return NULL;
    return identity->field == IDENTITY_FIELD_TOKEN ? "token" : "authorization";
}

struct identity identity_pack(char **to, const struct identity *identity)
{
    struct identity copy = *identity;
    copy.text = belfry_pack(to, identity->text);
    return copy;
}

bool identity_same(const struct identity *a, const struct identity *b)
{
    return a->kind == b->kind && a->field == b->field && belfry_bytes_equal(a->text, b->text);
}

/* ---- showing ---- */

static bool is_shown_as_it_is(unsigned char c)
{
    return c > 0x20 && c != 0x7f && c != '"' && c != '\\' && c != '%';
}

/* The name, cut between characters where it is too long for `room` bytes and its end. */
static void show_name(struct belfry_bytes name, char *out, size_t room)
{
    static const char cut[] = "...";
    size_t n = 0, fits = 0; /* fits: what can be kept if "..." has to follow */
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        size_t width = is_shown_as_it_is(c) ? 1 : 3;
        bool begins_character = (c & 0xc0) != 0x80;
        if (begins_character && n + sizeof(cut) <= room)
            fits = n;
        if (n + width + 1 > room) {
            memcpy(out + fits, cut, sizeof(cut));
            return;
        }
        if (width == 1)
            out[n] = (char)c;
        else
            snprintf(out + n, room - n, "%%%02X", c);
        n += width;
    }
    out[n] = '\0';
}

void identity_show(const struct identity *identity, char out[IDENTITY_SHOWN])
{
    static const char cert[] = "cert:", user[] = "user:";
    size_t prefix = sizeof(cert) - 1, len;
    char name[NAME_BYTES];
    switch (identity->kind) {
    case IDENTITY_NONE:
        snprintf(out, IDENTITY_SHOWN, "none");
        return;
    case IDENTITY_CERT:
        memcpy(out, cert, prefix);
        show_name(identity->text, out + prefix, IDENTITY_SHOWN - prefix);
        return;
    case IDENTITY_TOKEN:
        len = identity->accepted ? find_name(identity->text, name) : 0;
        if (len > 0) {
            memcpy(out, user, prefix);
            show_name(belfry_bytes_of(name, len), out + prefix, IDENTITY_SHOWN - prefix);
            return;
        }
        snprintf(out, IDENTITY_SHOWN, "%s:%06x", identity->accepted ? "token" : "claim", (unsigned)identity->tag);
        return;
    }
}
