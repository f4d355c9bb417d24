/* src/kapi/decoder_test.c: scripted bodies, whole and byte by byte; what comes of them is written down as text:
 *
 *     ADDED default/a 7 {...}      BOOKMARK 9 end      PAGE 12 next      ERROR 410 COMPACTED
 */
#include "kapi/decoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/refuse.h"

#define ROOMY ((size_t)1 << 20)

#define OBJECT(name, version)                                                                                          \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name                                           \
    "\",\"namespace\":\"default\",\"uid\":\"u-" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version)                                                                                              \
    EVENT("BOOKMARK", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define EXPIRED                                                                                                        \
    EVENT("ERROR", "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"    \
                   "\"too old resource version: 5 (812)\",\"reason\":\"Expired\",\"code\":410}")

/* ---- writing down ---- */

static const char *const kinds[] = {[BELFRY_DECODED_ITEM] = "ITEM",
                                    [BELFRY_DECODED_ADDED] = "ADDED",
                                    [BELFRY_DECODED_MODIFIED] = "MODIFIED",
                                    [BELFRY_DECODED_DELETED] = "DELETED",
                                    [BELFRY_DECODED_BOOKMARK] = "BOOKMARK",
                                    [BELFRY_DECODED_ERROR] = "ERROR",
                                    [BELFRY_DECODED_UNREADABLE] = "UNREADABLE",
                                    [BELFRY_DECODED_PAGE] = "PAGE"};

struct script {
    char text[4096];
    size_t len;
    char why[sizeof(((struct belfry_failure *)NULL)->why)]; /* of the ERROR */
};

static void put(struct script *script, struct belfry_bytes text)
{
    assert_true(script->len + text.len < sizeof(script->text));
    if (text.len > 0)
        memcpy(script->text + script->len, text.data, text.len);
    script->len += text.len;
    script->text[script->len] = '\0';
}

static void put_object(struct script *script, struct belfry_object *object)
{
    put(script, belfry_object_key(object));
    put(script, belfry_bytes_str(" "));
    put(script, belfry_object_version(object));
    put(script, belfry_bytes_str(" "));
    put(script, belfry_object_value(object));
    belfry_object_unref(object);
}

static void put_error(struct script *script, const struct belfry_failure *failure)
{
    char text[128];
    snprintf(text, sizeof(text), "%d %s", failure->code, belfry_errname((int)failure->err) + strlen("BELFRY_ERR_"));
    put(script, belfry_bytes_str(text));
    memcpy(script->why, failure->why, sizeof(failure->why));
}

/* Takes ownership of the result. */
static void put_decoded(struct script *script, struct belfry_decoded *decoded)
{
    put(script, belfry_bytes_str(kinds[decoded->kind]));
    put(script, belfry_bytes_str(" "));
    if (decoded->object != NULL) {
        put_object(script, decoded->object);
    } else if (decoded->kind == BELFRY_DECODED_BOOKMARK) {
        put(script, belfry_bytes_str(decoded->version));
        put(script, belfry_bytes_str(decoded->initial_end ? " end" : ""));
    } else if (decoded->kind == BELFRY_DECODED_PAGE) {
        put(script, belfry_bytes_str(decoded->page.version));
        put(script, belfry_bytes_str(decoded->page.continue_with == NULL ? "" : " "));
        put(script, belfry_bytes_str(decoded->page.continue_with == NULL ? "" : decoded->page.continue_with));
        belfry_kube_page_fini(&decoded->page);
    } else {
        put_error(script, decoded->failure);
    }
    put(script, belfry_bytes_str("\n"));
}

static struct belfry_decoder *create(enum belfry_decoder_mode mode, const char *content_type, size_t max_bytes)
{
    struct belfry_decoder *decoder;
    assert_int_equal(belfry_decoder_create(mode, belfry_bytes_str(content_type), max_bytes, &decoder), BELFRY_OK);
    return decoder;
}

static void drain(struct belfry_decoder *decoder, struct script *script)
{
    struct belfry_decoded decoded;
    enum belfry_err err;
    while ((err = belfry_decoder_next(decoder, &decoded)) == BELFRY_OK)
        put_decoded(script, &decoded);
    assert_int_equal(err, BELFRY_ERR_AGAIN);
}

static void feed(struct belfry_decoder *decoder, struct script *script, struct belfry_bytes body, size_t piece)
{
    for (size_t at = 0; at < body.len; at += piece) {
        size_t n = body.len - at < piece ? body.len - at : piece;
        assert_int_equal(belfry_decoder_feed(decoder, belfry_bytes_of(body.data + at, n)), BELFRY_OK);
        drain(decoder, script);
    }
    drain(decoder, script);
}

/* ---- expecting ---- */

enum ended { UNEXPECTED, QUIET, OVER };

static void assert_ended(const struct belfry_decoder *decoder, enum ended ended)
{
    assert_int_equal(belfry_decoder_over(decoder), ended == OVER);
    assert_int_equal(belfry_decoder_complete(decoder), ended != UNEXPECTED);
}

/* In pieces of every size up to 8 bytes, and whole. */
static void assert_decoded(enum belfry_decoder_mode mode, const char *body, const char *expected, enum ended ended)
{
    for (size_t piece = 1; piece <= 9; piece++) {
        struct belfry_decoder *decoder = create(mode, "application/json", ROOMY);
        struct script script = {.len = 0};
        feed(decoder, &script, belfry_bytes_str(body), piece < 9 ? piece : strlen(body) + 1);
        assert_string_equal(script.text, expected);
        assert_ended(decoder, ended);
        belfry_decoder_destroy(decoder);
    }
}

/* One ERROR whose sentence is `why`, of the body fed whole. */
static void assert_broken(enum belfry_decoder_mode mode, const char *body, const char *why)
{
    struct belfry_decoder *decoder = create(mode, "", ROOMY);
    struct belfry_decoded decoded;
    assert_int_equal(belfry_decoder_feed(decoder, belfry_bytes_str(body)), BELFRY_OK);
    assert_int_equal(belfry_decoder_next(decoder, &decoded), BELFRY_OK);
    assert_int_equal(decoded.kind, BELFRY_DECODED_ERROR);
    assert_int_equal(decoded.failure->err, BELFRY_ERR_PROTOCOL);
    assert_int_equal(decoded.failure->code, mode == BELFRY_DECODE_WATCH ? 500 : 0);
    assert_string_equal(decoded.failure->reason, mode == BELFRY_DECODE_WATCH ? "ClientWatchDecoding" : "");
    assert_string_equal(decoded.failure->why, why);
    assert_int_equal(belfry_decoder_next(decoder, &decoded), BELFRY_ERR_AGAIN);
    assert_ended(decoder, OVER);
    belfry_decoder_destroy(decoder);
}

/* ---- watches ---- */

static void a_watch_becomes_events(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_WATCH,
                   EVENT("ADDED", OBJECT("a", "7")) EVENT("MODIFIED", OBJECT("a", "8")) "\n\n" BOOKMARK("9")
                       EVENT("DELETED", OBJECT("a", "10")),
                   "ADDED default/a 7 " OBJECT("a", "7") "\nMODIFIED default/a 8 " OBJECT(
                       "a", "8") "\nBOOKMARK 9\nDELETED default/a 10 " OBJECT("a", "10") "\n",
                   QUIET);
}

static void the_object_is_kept_byte_for_byte(void **state)
{
    (void)state;
    static const char object[] = "{ \"kind\":\"A\", \"apiVersion\":\"g/v1\",\n\"metadata\" : {\"name\":\"x\"},"
                                 "\"n\":1.0E+400,\"big\":123456789012345678901234567890,\"s\":\"\\u00e9\\/\" }";
    char body[512], expected[512];
    snprintf(body, sizeof(body), " {\"object\" : %s ,\"type\":\"ADDED\"}", object);
    snprintf(expected, sizeof(expected), "ADDED x  %s\n", object);
    assert_decoded(BELFRY_DECODE_WATCH, body, expected, QUIET);
}

static void what_an_object_says_of_itself_is_at_hand(void **state)
{
    (void)state;
    struct belfry_decoder *decoder = create(BELFRY_DECODE_WATCH, "", ROOMY);
    struct belfry_decoded decoded;
    assert_int_equal(belfry_decoder_feed(decoder, belfry_bytes_str(EVENT("ADDED", OBJECT("a", "7")))), BELFRY_OK);
    assert_int_equal(belfry_decoder_next(decoder, &decoded), BELFRY_OK);
    belfry_decoder_destroy(decoder); /* the object stays */
    assert_true(belfry_bytes_equal(belfry_object_ns(decoded.object), belfry_bytes_str("default")));
    assert_true(belfry_bytes_equal(belfry_object_name(decoded.object), belfry_bytes_str("a")));
    assert_true(belfry_bytes_equal(belfry_object_uid(decoded.object), belfry_bytes_str("u-a")));
    assert_int_equal(belfry_object_rev(decoded.object), 7);
    belfry_object_unref(decoded.object);
}

static void a_name_loses_its_escapes_and_the_object_does_not(void **state)
{
    (void)state;
#define ROLE "{\"kind\":\"Role\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\\u0026b\",\"namespace\":\"n\"}}"
    assert_decoded(BELFRY_DECODE_WATCH, EVENT("ADDED", ROLE), "ADDED n/a&b  " ROLE "\n", QUIET);
}

static void a_bookmark_may_end_the_initial_state(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_WATCH,
                   EVENT("BOOKMARK", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"12\","
                                     "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}") BOOKMARK("13"),
                   "BOOKMARK 12 end\nBOOKMARK 13\n", QUIET);
}

static void the_servers_error_is_the_last_thing(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_WATCH, BOOKMARK("9") EXPIRED EVENT("ADDED", OBJECT("a", "7")) "<html>",
                   "BOOKMARK 9\nERROR 410 COMPACTED\n", OVER);
    struct belfry_decoder *decoder = create(BELFRY_DECODE_WATCH, "", ROOMY);
    struct script script = {.len = 0};
    feed(decoder, &script, belfry_bytes_str(EXPIRED), 1);
    assert_string_equal(script.why, "410 Expired: too old resource version: 5 (812)");
    belfry_decoder_destroy(decoder);
}

static void an_empty_watch_ends_quietly(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_WATCH, "", "", QUIET);
    assert_decoded(BELFRY_DECODE_WATCH, "\n \n", "", QUIET);
}

/* Where two events and what stands around them end, it is quiet; anywhere else it is not. */
static void a_watch_that_ends_inside_a_value_is_told_apart(void **state)
{
    (void)state;
    static const char first[] = " " EVENT("ADDED", OBJECT("a", "7")), second[] = BOOKMARK("9") "\n";
    char body[512];
    snprintf(body, sizeof(body), "%s%s", first, second);
    for (size_t n = 0; n <= strlen(body); n++) {
        struct belfry_decoder *decoder = create(BELFRY_DECODE_WATCH, "", ROOMY);
        struct script script = {.len = 0};
        size_t a = strlen(first), end = strlen(body);
        bool quiet = n <= 1 || n == a - 1 || n == a || n >= end - 2;
        feed(decoder, &script, belfry_bytes_of(body, n), 1 + n % 7);
        assert_ended(decoder, quiet ? QUIET : UNEXPECTED);
        assert_int_equal(strstr(script.text, "ADDED") != NULL, n >= a - 1);
        assert_int_equal(strstr(script.text, "BOOKMARK") != NULL, n >= end - 2);
        belfry_decoder_destroy(decoder);
    }
}

static void a_watch_that_cannot_be_decoded_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"<html>gateway</html>", "not JSON: <html>gateway</html>"},
        {"{\"type\":\"ADDED\",\"object\":{\"a\":01}}", "not JSON: {\"type\":\"ADDED\",\"object\":{\"a\":01}}"},
        {"{\"type\":\"ADDED\",\x1b]}", "not JSON: {\"type\":\"ADDED\",?]"},
        {"{\"type\":\"PATCHED\",\"object\":{}}", "an event of an unknown type: {\"type\":\"PATCHED\",\"object\":{}}"},
        {"[1, 2]", "no event: [1, 2]"},
        {"{\"kind\":\"Status\",\"code\":500}", "an event without a type: {\"kind\":\"Status\",\"code\":500}"},
        {EVENT("BOOKMARK", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}"),
         "a bookmark without metadata.resourceVersion: "
         "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[256];
        snprintf(why, sizeof(why), "the watch stream cannot be decoded: %s", cases[i].why);
        assert_broken(BELFRY_DECODE_WATCH, cases[i].body, why);
    }
    assert_decoded(BELFRY_DECODE_WATCH, BOOKMARK("9") "{]" BOOKMARK("10"), "BOOKMARK 9\nERROR 500 PROTOCOL\n", OVER);
}

static void an_object_without_a_name_is_left_out(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_WATCH,
                   EVENT("MODIFIED", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{}}") BOOKMARK("9"),
                   "UNREADABLE 500 PROTOCOL\nBOOKMARK 9\n", QUIET);
    assert_decoded(BELFRY_DECODE_LIST,
                   "{\"items\":[{\"metadata\":{}}," OBJECT("a", "7") "],\"metadata\":{\"resourceVersion\":\"8\"}}",
                   "UNREADABLE 0 PROTOCOL\nITEM default/a 7 " OBJECT("a", "7") "\nPAGE 8\n", OVER);
}

/* ---- lists ---- */

static void a_list_becomes_items_and_a_page(void **state)
{
    (void)state;
    assert_decoded(
        BELFRY_DECODE_LIST,
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"next\"},"
        "\"items\":[" OBJECT("a", "7") " , " OBJECT("b", "8") "]}\n",
        "ITEM default/a 7 " OBJECT("a", "7") "\nITEM default/b 8 " OBJECT("b", "8") "\nPAGE 12 next\n", OVER);
    assert_decoded(BELFRY_DECODE_LIST, "{\"metadata\":{\"resourceVersion\":\"12\"},\"items\":null}", "PAGE 12\n", OVER);
}

static void items_get_the_kind_that_the_list_leaves_out(void **state)
{
    (void)state;
    assert_decoded(
        BELFRY_DECODE_LIST,
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\","
        "\"resourceVersion\":\"7\"}},{\"kind\":\"X\",\"metadata\":{\"name\":\"b\"}}]}",
        "ITEM a 7 {\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}\n"
        "ITEM b  {\"kind\":\"X\",\"metadata\":{\"name\":\"b\"}}\nPAGE \n",
        OVER);
    assert_decoded(
        BELFRY_DECODE_LIST, /* the kind comes too late */
        "{\"items\":[{\"metadata\":{\"name\":\"a\"}}],\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{}}",
        "ITEM a  {\"metadata\":{\"name\":\"a\"}}\nPAGE \n", OVER);
}

static void a_list_is_complete_when_its_envelope_has_come(void **state)
{
    (void)state;
    static const char body[] = "{\"metadata\":{\"resourceVersion\":\"12\"},\"items\":[" OBJECT("a", "7") "]}\n";
    for (size_t n = 0; n < sizeof(body); n++) {
        struct belfry_decoder *decoder = create(BELFRY_DECODE_LIST, "", ROOMY);
        struct script script = {.len = 0};
        feed(decoder, &script, belfry_bytes_of(body, n), 1 + n % 7);
        assert_ended(decoder, n >= sizeof(body) - 2 ? OVER : UNEXPECTED);
        assert_int_equal(strstr(script.text, "ITEM") != NULL, n >= sizeof(body) - 4);
        belfry_decoder_destroy(decoder);
    }
}

static void a_list_that_cannot_be_decoded_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"no ", "the list cannot be decoded: not JSON: no"},
        {"[] ", "the list cannot be decoded: no object, and no list: []"},
        {"{\"items\":[7]}", "the list cannot be decoded: no object: 7"},
        {"{\"items\":[;]}", "the list cannot be decoded: not JSON: ;]}"},
        {"{\"kind\":\"Status\"}",
         "the list cannot be decoded: an object without items, which is not a list: {\"kind\":\"Status\"}"},
        {"{\"items\":[],}", "the list cannot be decoded: not JSON: {\"items\":[],}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_broken(BELFRY_DECODE_LIST, cases[i].body, cases[i].why);
    assert_decoded(BELFRY_DECODE_LIST, "{\"items\":[" OBJECT("a", "7") "}",
                   "ITEM default/a 7 " OBJECT("a", "7") "\nERROR 0 PROTOCOL\n", OVER);
}

/* ---- gets ---- */

static void a_get_becomes_one_object(void **state)
{
    (void)state;
    assert_decoded(BELFRY_DECODE_OBJECT, "\n" OBJECT("a", "7") "\n{}", "ITEM default/a 7 " OBJECT("a", "7") "\n", OVER);
    static const char body[] = OBJECT("a", "7");
    for (size_t n = 0; n <= strlen(body); n++) {
        struct belfry_decoder *decoder = create(BELFRY_DECODE_OBJECT, "", ROOMY);
        struct script script = {.len = 0};
        feed(decoder, &script, belfry_bytes_of(body, n), 1 + n % 7);
        assert_ended(decoder, n == strlen(body) ? OVER : UNEXPECTED);
        belfry_decoder_destroy(decoder);
    }
}

static void a_get_that_cannot_be_decoded_says_why(void **state)
{
    (void)state;
    assert_broken(
        BELFRY_DECODE_OBJECT, "{\"kind\":\"Status\",\"metadata\":{}}",
        "the object cannot be decoded: an object without metadata.name: {\"kind\":\"Status\",\"metadata\":{}}");
    assert_broken(BELFRY_DECODE_OBJECT, "{}", "the object cannot be decoded: an object without metadata: {}");
    assert_broken(BELFRY_DECODE_OBJECT, "[]", "the object cannot be decoded: no object: []");
}

/* ---- all ---- */

static void only_json_is_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool known;
    } cases[] = {
        {"", true},
        {"application/json", true},
        {"application/json;stream=watch", true},
        {"Application/JSON; charset=utf-8", true},
        {"application/json ;x=y", true},
        {"application/jsonp", false},
        {"application/vnd.kubernetes.protobuf;stream=watch", false},
        {"text/html\x1b", false},
        {"json", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_decoder *decoder = create(BELFRY_DECODE_WATCH, cases[i].type, ROOMY);
        struct script script = {.len = 0};
        feed(decoder, &script, belfry_bytes_str(BOOKMARK("9")), 7);
        assert_string_equal(script.text, cases[i].known ? "BOOKMARK 9\n" : "ERROR 500 PROTOCOL\n");
        assert_ended(decoder, cases[i].known ? QUIET : OVER);
        if (strcmp(cases[i].type, "text/html\x1b") == 0)
            assert_string_equal(script.why,
                                "the watch stream cannot be decoded: its type is not application/json: text/html?");
        belfry_decoder_destroy(decoder);
    }
}

static void what_is_larger_than_the_limit_is_one_error(void **state)
{
    (void)state;
    static const struct {
        enum belfry_decoder_mode mode;
        const char *before, *frame, *after, *scripts[2];
    } cases[] = {
        {BELFRY_DECODE_WATCH, "", BOOKMARK("9"), "", {"BOOKMARK 9\n", "ERROR 500 TOO_LARGE\n"}},
        {BELFRY_DECODE_OBJECT,
         "",
         "{\"metadata\":{\"name\":\"a\"}}\n",
         "",
         {"ITEM a  {\"metadata\":{\"name\":\"a\"}}\n", "ERROR 0 TOO_LARGE\n"}},
        {BELFRY_DECODE_LIST, "", "{\"metadata\":{},\"items\":[]}\n", "", {"PAGE \n", "ERROR 0 TOO_LARGE\n"}},
        {BELFRY_DECODE_LIST,
         "{\"items\":[",
         "{\"metadata\":{\"name\":\"a\"},\"x\":\"..............................\"},",
         "{}",
         {"ITEM a  {\"metadata\":{\"name\":\"a\"},\"x\":\"..............................\"}\nERROR 0 PROTOCOL\n",
          "ERROR 0 TOO_LARGE\n"}},
    };
    for (size_t i = 0; i < 4 * sizeof(cases) / sizeof(cases[0]); i++) {
        size_t k = i / 4;
        char body[256];
        struct belfry_decoder *decoder =
            create(cases[k].mode, "", strlen(cases[k].frame) - 1 - i % 2); /* its last byte is no part of it */
        struct script script = {.len = 0};
        snprintf(body, sizeof(body), "%s%s%s", cases[k].before, cases[k].frame, cases[k].after);
        feed(decoder, &script, belfry_bytes_str(body), i % 4 < 2 ? 1 : 256);
        assert_string_equal(script.text, cases[k].scripts[i % 2]);
        if (i % 2 == 1)
            assert_non_null(strstr(script.why, "cannot be decoded: more than "));
        belfry_decoder_destroy(decoder);
    }
}

/* What the first thing is of a body that comes in pieces of so many bytes; its object is dropped. */
static enum belfry_decoded_kind first_of(struct belfry_bytes body, size_t piece)
{
    struct belfry_decoder *decoder = create(BELFRY_DECODE_WATCH, "", 8 * ROOMY);
    struct belfry_decoded decoded = {0};
    enum belfry_err err = BELFRY_ERR_AGAIN;
    for (size_t at = 0; at < body.len && err == BELFRY_ERR_AGAIN; at += piece) {
        struct belfry_bytes next = belfry_bytes_of(body.data + at, body.len - at < piece ? body.len - at : piece);
        assert_int_equal(belfry_decoder_feed(decoder, next), BELFRY_OK);
        err = belfry_decoder_next(decoder, &decoded);
    }
    assert_int_equal(err, BELFRY_OK);
    if (decoded.object != NULL)
        belfry_object_unref(decoded.object);
    belfry_decoder_destroy(decoder);
    return decoded.kind;
}

/* Neither the stack nor the time may grow with it. */
static void depth_does_not_matter(void **state)
{
    (void)state;
    const size_t depth = 1000000;
    static const char head[] =
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"A\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
        "\"deep\"},\"x\":",
                      tail[] = "}}\n";
    size_t len = strlen(head) + 2 * depth + strlen(tail);
    char *body = malloc(len + 1);
    assert_non_null(body);
    memcpy(body, head, strlen(head));
    memset(body + strlen(head), '[', depth);
    memset(body + strlen(head) + depth, ']', depth);
    memcpy(body + strlen(head) + 2 * depth, tail, sizeof(tail));
    for (size_t piece = 1; piece <= 32 * 1024; piece *= 32)
        assert_int_equal(first_of(belfry_bytes_of(body, len), piece), BELFRY_DECODED_ADDED);
    body[strlen(head) + depth] = '}';
    assert_int_equal(first_of(belfry_bytes_of(body, len), 1024), BELFRY_DECODED_ERROR);
    free(body);
}

/* ---- without memory ---- */

static enum belfry_err decode_all(enum belfry_decoder_mode mode, const char *body)
{
    struct belfry_decoder *decoder;
    struct belfry_decoded decoded;
    enum belfry_err err = belfry_decoder_create(mode, belfry_bytes_of("", 0), ROOMY, &decoder);
    if (err != BELFRY_OK)
        return err;
    err = belfry_decoder_feed(decoder, belfry_bytes_str(body));
    while (err == BELFRY_OK && (err = belfry_decoder_next(decoder, &decoded)) == BELFRY_OK) {
        if (decoded.object != NULL)
            belfry_object_unref(decoded.object);
        belfry_kube_page_fini(&decoded.page);
    }
    belfry_decoder_destroy(decoder);
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static const char watch_body[] =
    EVENT("ADDED", "{\"kind\":\"A\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\\u0026b\"}}") EXPIRED;
static const char list_body[] =
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":\"a\"}}],"
    "\"metadata\":{\"continue\":\"next\"}}";

static enum belfry_err decode_each(void)
{
    enum belfry_err err = decode_all(BELFRY_DECODE_WATCH, watch_body);
    if (err == BELFRY_OK)
        err = decode_all(BELFRY_DECODE_LIST, list_body);
    return err == BELFRY_OK ? decode_all(BELFRY_DECODE_OBJECT, OBJECT("a", "7")) : err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(decode_each) >= 20);
}

/* Whichever allocation is refused once: asked again, also after more was fed, it gives what it would have given. */
static void assert_goes_on(enum belfry_decoder_mode mode, const char *body, const char *expected)
{
    bool refused = true;
    for (size_t n = 0; refused; n++) {
        struct belfry_decoder *decoder = create(mode, "", ROOMY);
        struct script script = {.len = 0};
        struct belfry_decoded decoded;
        size_t half = strlen(body) - 4, n_errors = 0;
        enum belfry_err err;
        assert_int_equal(belfry_decoder_feed(decoder, belfry_bytes_of(body, half)), BELFRY_OK);
        refuse_begin(n);
        while ((err = belfry_decoder_next(decoder, &decoded)) == BELFRY_OK)
            put_decoded(&script, &decoded);
        refused = refuse_end();
        n_errors += err == BELFRY_ERR_NOMEM;
        assert_int_equal(n_errors, refused);
        feed(decoder, &script, belfry_bytes_str(body + half), 1);
        assert_string_equal(script.text, expected);
        belfry_decoder_destroy(decoder);
    }
}

static void it_goes_on_after_no_memory(void **state)
{
    (void)state;
    assert_goes_on(BELFRY_DECODE_WATCH, EVENT("ADDED", ROLE) BOOKMARK("9") BOOKMARK("10"),
                   "ADDED n/a&b  " ROLE "\nBOOKMARK 9\nBOOKMARK 10\n");
    assert_goes_on(BELFRY_DECODE_WATCH, EXPIRED "    ", "ERROR 410 COMPACTED\n");
    assert_goes_on(BELFRY_DECODE_OBJECT, ROLE "    ", "ITEM n/a&b  " ROLE "\n");
    char list[512];
    snprintf(list, sizeof(list), "%s    ", list_body);
    assert_goes_on(BELFRY_DECODE_LIST, list,
                   "ITEM a  {\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}\nPAGE  next\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_becomes_events),
        cmocka_unit_test(the_object_is_kept_byte_for_byte),
        cmocka_unit_test(what_an_object_says_of_itself_is_at_hand),
        cmocka_unit_test(a_name_loses_its_escapes_and_the_object_does_not),
        cmocka_unit_test(a_bookmark_may_end_the_initial_state),
        cmocka_unit_test(the_servers_error_is_the_last_thing),
        cmocka_unit_test(an_empty_watch_ends_quietly),
        cmocka_unit_test(a_watch_that_ends_inside_a_value_is_told_apart),
        cmocka_unit_test(a_watch_that_cannot_be_decoded_says_why),
        cmocka_unit_test(an_object_without_a_name_is_left_out),
        cmocka_unit_test(a_list_becomes_items_and_a_page),
        cmocka_unit_test(items_get_the_kind_that_the_list_leaves_out),
        cmocka_unit_test(a_list_is_complete_when_its_envelope_has_come),
        cmocka_unit_test(a_list_that_cannot_be_decoded_says_why),
        cmocka_unit_test(a_get_becomes_one_object),
        cmocka_unit_test(a_get_that_cannot_be_decoded_says_why),
        cmocka_unit_test(only_json_is_decoded),
        cmocka_unit_test(what_is_larger_than_the_limit_is_one_error),
        cmocka_unit_test(depth_does_not_matter),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(it_goes_on_after_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
