/* src/cli/out/out_json_test.c */
#include "cli/out/out_json.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/out/out_etcd_json.h"
#include "cli/out/out_simple.h"
#include "cli/out/out_table.h"

static char text[4096];
static FILE *out;

static int begin(void **state)
{
    (void)state;
    memset(text, 0, sizeof(text));
    out = fmemopen(text, sizeof(text), "w");
    return out == NULL;
}

static int end(void **state)
{
    (void)state;
    return fclose(out);
}

static const char *written(void)
{
    fflush(out);
    return text;
}

static struct belfry_bytes bytes(const char *s)
{
    return (struct belfry_bytes){s, strlen(s)};
}

static void base64_is_that_of_rfc_4648(void **state)
{
    (void)state;
    const char *parts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    for (size_t i = 0; i < 7; i++)
        json_base64(out, bytes(parts[i]));
    json_base64(out, (struct belfry_bytes){"\xff\xff\xfe\x00", 4});
    assert_string_equal(written(), "\"\"\"Zg==\"\"Zm8=\"\"Zm9v\"\"Zm9vYg==\"\"Zm9vYmE=\"\"Zm9vYmFy\"\"///+AA==\"");
}

static void strings_escape_what_json_must(void **state)
{
    (void)state;
    json_string(out, (struct belfry_bytes){"a\"\\\b\f\n\r\t\x01\x00z/\x7f\xc3\xa9", 15});
    assert_string_equal(written(), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u0000z/\x7f\xc3\xa9\"");
}

static void an_event_is_one_line_with_base64_where_it_is_not_text(void **state)
{
    (void)state;
    struct belfry_event event = {
        .op = BELFRY_PUT, .key = bytes("/k"), .value = bytes("\xff"), .create_rev = 5, .mod_rev = 5};
    json_event_line(out, 5, "put", &event);
    event.mod_rev = 6;
    event.value = bytes("v");
    event.prev = bytes("\xff");
    json_event_line(out, 6, "put", &event);
    event = (struct belfry_event){.op = BELFRY_DELETE, .key = bytes("\xfe"), .mod_rev = 7};
    json_event_line(out, 7, "del", &event);
    event.prev = bytes("");
    json_event_line(out, 7, "del", &event);
    assert_string_equal(written(), "{\"rev\":5,\"op\":\"put\",\"create\":true,\"key\":\"/k\",\"value_b64\":\"/w==\"}\n"
                                   "{\"rev\":6,\"op\":\"put\",\"key\":\"/k\",\"value\":\"v\",\"prev_b64\":\"/w==\"}\n"
                                   "{\"rev\":7,\"op\":\"del\",\"key_b64\":\"/g==\"}\n"
                                   "{\"rev\":7,\"op\":\"del\",\"key_b64\":\"/g==\",\"prev\":\"\"}\n");
}

/* Bytes as etcdctl 3.5.16 wrote them for these events. */
static void a_watch_response_has_etcdctls_bytes(void **state)
{
    (void)state;
    struct etcd_json_watch w = {.open = false};
    struct belfry_header header = {UINT64_C(14930912536174976129), UINT64_C(3211106759432434375), 2, 11};
    struct belfry_event put = {.op = BELFRY_PUT,
                               .key = bytes("w/1"),
                               .value = bytes("v2"),
                               .prev = bytes("v1"),
                               .create_rev = 9,
                               .mod_rev = 10,
                               .version = 2,
                               .prev_create_rev = 9,
                               .prev_mod_rev = 9,
                               .prev_version = 1};
    struct belfry_event del = {.op = BELFRY_DELETE, .key = bytes("w/1"), .mod_rev = 11};
    etcd_json_watch_begin(&w, out, &header);
    etcd_json_watch_event(&w, out, &put);
    etcd_json_watch_begin(&w, out, &header); /* the next revision of the same response */
    etcd_json_watch_event(&w, out, &del);
    etcd_json_watch_end(&w, out);
    etcd_json_watch_end(&w, out);
    etcd_json_watch_compacted(&w, out, &(struct belfry_header){.cluster_id = 0}, 10);
    assert_string_equal(
        written(),
        "{\"Header\":{\"cluster_id\":14930912536174976129,\"member_id\":3211106759432434375,\"revision\":11,"
        "\"raft_term\":2},\"Events\":[{\"kv\":{\"key\":\"dy8x\",\"create_revision\":9,\"mod_revision\":10,\"version\":"
        "2,"
        "\"value\":\"djI=\"},\"prev_kv\":{\"key\":\"dy8x\",\"create_revision\":9,\"mod_revision\":9,\"version\":1,"
        "\"value\":\"djE=\"}},{\"type\":1,\"kv\":{\"key\":\"dy8x\",\"mod_revision\":11}}],\"CompactRevision\":0,"
        "\"Canceled\":false,\"Created\":false}\n"
        "{\"Header\":{\"cluster_id\":14930912536174976129,\"member_id\":3211106759432434375,\"raft_term\":2},"
        "\"Events\":[],\"CompactRevision\":10,\"Canceled\":true,\"Created\":false}\n");
}

static void simple_has_etcdctls_bytes(void **state)
{
    (void)state;
    struct belfry_event del = {.op = BELFRY_DELETE, .key = bytes("w/1"), .prev = bytes("v2")};
    simple_change(out, &del, 0);
    simple_change(out, &del, SIMPLE_HEX);
    del.prev.data = NULL;
    simple_change(out, &del, 0);
    simple_kv(out, &del, SIMPLE_VALUE_ONLY);
    assert_string_equal(written(), "DELETE\nw/1\nv2\nw/1\n\n"
                                   "DELETE\n\\x77\\x2f\\x31\n\\x76\\x32\n\\x77\\x2f\\x31\n\n"
                                   "DELETE\nw/1\n\n\n");
}

static void simple_lets_nothing_reach_a_terminal_raw(void **state)
{
    (void)state;
    char got[256] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    FILE *to = fopen(ptsname(terminal), "w");
    assert_non_null(to);
    simple_bytes(to, bytes("a\x1b]0;x\x07\t\xe2\x80\xae\xff\xc3\xa9"), 0);
    fflush(to);
    assert_true(read(terminal, got, sizeof(got) - 1) > 0);
    assert_null(strchr(got, 0x1b));
    assert_non_null(strstr(got, "a\\x1b]0;x\\x07"));
    assert_non_null(strstr(got, "\\xe2\\x80\\xae\\xff\xc3\xa9"));
    fclose(to);
    close(terminal);
}

static void the_table_lets_nothing_reach_the_terminal_raw(void **state)
{
    (void)state;
    size_t columns = table_bytes(out, bytes("a\x1b[2J\n\x7f\xc2\x9b\xff\xc3\xa9"), false);
    assert_string_equal(written(), "a\\x1b[2J\\x0a\\x7f\\xc2\\x9b\\xff\xc3\xa9");
    assert_int_equal(columns, 1 + 4 + 3 + 4 + 4 + 8 + 4 + 1);
}

static void the_table_shows_old_and_new(void **state)
{
    (void)state;
    struct table table = {.hex = false};
    struct belfry_event event = {.op = BELFRY_PUT, .key = bytes("/services/api/1"), .value = bytes("x"), .mod_rev = 7};
    table_event(&table, out, 7, "=", &event, NULL);
    event.prev = bytes("w");
    table_event(&table, out, 8, "put", &event, "17:40:02.118");
    event.op = BELFRY_DELETE;
    event.value.len = 0;
    table_event(&table, out, 9, "del", &event, NULL);
    assert_string_equal(written(), "  rev        op      key                    value\n"
                                   "  7          =       /services/api/1        x\n"
                                   "  8          put     /services/api/1        w -> x"
                                   "                                     17:40:02.118\n"
                                   "  9          del     /services/api/1        w\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(base64_is_that_of_rfc_4648, begin, end),
        cmocka_unit_test_setup_teardown(strings_escape_what_json_must, begin, end),
        cmocka_unit_test_setup_teardown(an_event_is_one_line_with_base64_where_it_is_not_text, begin, end),
        cmocka_unit_test_setup_teardown(a_watch_response_has_etcdctls_bytes, begin, end),
        cmocka_unit_test_setup_teardown(simple_has_etcdctls_bytes, begin, end),
        cmocka_unit_test_setup_teardown(simple_lets_nothing_reach_a_terminal_raw, begin, end),
        cmocka_unit_test_setup_teardown(the_table_lets_nothing_reach_the_terminal_raw, begin, end),
        cmocka_unit_test_setup_teardown(the_table_shows_old_and_new, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
