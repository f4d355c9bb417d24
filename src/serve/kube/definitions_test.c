/* src/serve/kube/definitions_test.c: definitions in a support/modelstore and in files of a temporary folder. */
#include "serve/kube/definitions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/modelstore.h"
#include "support/refuse.h"
#include "support/storecheck.h"

/* ---- manifests ---- */

static const char *manifest(const char *plural, const char *kind, const char *more)
{
    static char text[1024];
    snprintf(text, sizeof(text),
             "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
             "\"metadata\":{\"name\":\"%s.x.io\"},\"spec\":{\"group\":\"x.io\",\"scope\":\"Cluster\","
             "\"names\":{\"plural\":\"%s\",\"kind\":\"%s\"},"
             "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true}]}%s}",
             plural, plural, kind, more);
    return text;
}

/* ---- the bed ---- */

static struct store *store;
static int64_t rev;
static struct definition_source resources[3];
static struct definition_sources sources;
static struct definitions *definitions;

static size_t n_lines;
static char last_line[1024];

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)level, (void)user;
    n_lines++;
    snprintf(last_line, sizeof(last_line), "%s %s", event, text);
}

static const struct belfry_log lines = {.line = on_line, .level = BELFRY_LOG_WARN};

static void put(const char *key, const char *value)
{
    storecheck_write(store, ++rev, key, value);
}

static void put_thing(const char *key, const char *plural)
{
    char kind[64];
    snprintf(kind, sizeof(kind), "K%s", plural);
    put(key, manifest(plural, kind, ""));
}

static void follow(const char *first, const char *second)
{
    char why[256];
    resources[0] = (struct definition_source){.under = (char *)(uintptr_t)first};
    resources[1] = (struct definition_source){.under = (char *)(uintptr_t)second};
    sources = (struct definition_sources){.all = resources, .n = second == NULL ? 1 : 2};
    assert_int_equal(definitions_load(&sources, &definitions, why, sizeof(why)), BELFRY_OK);
}

static int setup(void **state)
{
    (void)state;
    store = modelstore_create(
        &(struct modelstore_opts){.history_rows = 10000, .history_age_s = 100, .extent_bytes = 1 << 20});
    store->api->set_past(store, 1);
    rev = 1;
    n_lines = 0;
    definitions = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    definitions_destroy(definitions);
    modelstore_destroy(store);
    return refuse_held() == 0 ? 0 : -1;
}

/* Reads everything; returns in how many pieces. */
static size_t read_all(void)
{
    size_t pieces = 0;
    for (bool done = false; !done; pieces++)
        assert_int_equal(definitions_read(definitions, store, 0, &lines, &done), BELFRY_OK);
    return pieces;
}

static struct kube_catalog *catalog(void)
{
    struct kube_catalog *out = NULL;
    assert_int_equal(definitions_catalog(definitions, &lines, &out), BELFRY_OK);
    return out;
}

static const struct kube_resource *found(const struct kube_catalog *in, const char *plural)
{
    const struct kube_resource *resource = NULL;
    const struct kube_version *version;
    kube_catalog_find(in, belfry_bytes_str("x.io"), belfry_bytes_str("v1"), belfry_bytes_str(plural), &resource,
                      &version);
    return resource;
}

static size_t count_now(void)
{
    read_all();
    struct kube_catalog *now = catalog();
    size_t n = kube_catalog_count(now);
    kube_catalog_unref(now);
    return n;
}

/* ---- what is served ---- */

static void what_lies_under_the_prefixes_is_served(void **state)
{
    (void)state;
    follow("/a/", "/b/");
    put_thing("/a/apples", "apples");
    put_thing("/b/pears", "pears");
    put_thing("/c/plums", "plums");
    read_all();
    struct kube_catalog *now = catalog();
    assert_int_equal(kube_catalog_count(now), 2);
    assert_non_null(found(now, "apples"));
    assert_non_null(found(now, "pears"));
    kube_catalog_unref(now);
    put("/a/apples", NULL);
    put("/b/pears", NULL);
    assert_int_equal(count_now(), 0);
    assert_int_equal(n_lines, 0);
}

static void many_are_read_in_pieces_of_one_revision(void **state)
{
    (void)state;
    enum { N = 300 };
    char key[64], plural[32];
    follow("/a/", NULL);
    for (int i = 0; i < N; i++) {
        snprintf(plural, sizeof(plural), "t%03d", i);
        snprintf(key, sizeof(key), "/a/%s", plural);
        put_thing(key, plural);
    }
    bool done = false;
    assert_int_equal(definitions_read(definitions, store, rev, &lines, &done), BELFRY_OK);
    assert_false(done);
    put("/a/t299", NULL); /* behind the piece that was read: it was there at that revision */
    put_thing("/a/u", "u");
    assert_true(read_all() >= 2);
    struct kube_catalog *now = catalog();
    assert_int_equal(kube_catalog_count(now), N);
    assert_null(found(now, "u"));
    kube_catalog_unref(now);
    assert_int_equal(count_now(), N);
}

static void a_store_that_is_behind_is_not_read(void **state)
{
    (void)state;
    bool done = true;
    follow("/a/", NULL);
    assert_int_equal(definitions_read(definitions, store, 0, &lines, &done), BELFRY_ERR_AGAIN); /* it is empty */
    assert_false(done);
    put_thing("/a/a", "as");
    assert_int_equal(definitions_read(definitions, store, rev + 1, &lines, &done), BELFRY_ERR_AGAIN);
    assert_int_equal(count_now(), 1);
}

/* ---- what stays ---- */

static void what_says_the_same_stays_the_same_resource(void **state)
{
    (void)state;
    follow("/a/", "/b/");
    put_thing("/a/apples", "apples");
    put_thing("/a/figs", "figs");
    put_thing("/b/pears", "pears");
    read_all();
    struct kube_catalog *before = catalog();
    put("/a/apples", manifest("apples", "Kapples", ",\"status\":{\"storedVersions\":[\"v1\"]}"));
    put("/a/figs", manifest("figs", "Fig", ""));
    put_thing("/a/aa", "aa");
    read_all();
    struct kube_catalog *after = catalog();
    assert_ptr_equal(found(before, "apples"), found(after, "apples"));
    assert_ptr_equal(found(before, "pears"), found(after, "pears"));
    assert_ptr_not_equal(found(before, "figs"), found(after, "figs"));
    assert_string_equal(found(after, "figs")->kind, "Fig");
    kube_catalog_unref(before);
    kube_catalog_unref(after);
}

/* A backup was restored: the same key at the same revision says something else. */
static void adopt_other(const char *key, const char *value, uint64_t past)
{
    struct storecheck_event event = storecheck_event(belfry_bytes_str(key), belfry_bytes_str(value), rev, NULL);
    struct belfry_wire_header header = {.revision = rev};
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    assert_int_equal(store->api->put(store, &event.event.kv), BELFRY_OK);
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
    storecheck_event_fini(&event);
}

static void in_another_past_an_equal_revision_says_nothing(void **state)
{
    (void)state;
    follow("/a/", NULL);
    put("/a/apples", manifest("apples", "Apple", ""));
    read_all();
    struct kube_catalog *before = catalog();
    adopt_other("/a/apples", manifest("apples", "Quince", ""), 2);
    read_all();
    struct kube_catalog *after = catalog();
    assert_string_equal(found(after, "apples")->kind, "Quince");
    kube_catalog_unref(before);
    kube_catalog_unref(after);
}

static void a_past_that_is_cut_while_it_is_read_is_not_told(void **state)
{
    (void)state;
    enum { N = 200 };
    char key[64], plural[32];
    bool done = false;
    follow("/a/", NULL);
    for (int i = 0; i < N; i++) {
        snprintf(plural, sizeof(plural), "t%03d", i);
        snprintf(key, sizeof(key), "/a/%s", plural);
        put_thing(key, plural);
    }
    assert_int_equal(definitions_read(definitions, store, 0, &lines, &done), BELFRY_OK);
    assert_false(done);
    adopt_other("/a/t199", manifest("t199", "Other", ""), 2);
    assert_int_equal(definitions_read(definitions, store, 0, &lines, &done), BELFRY_ERR_COMPACTED);
    assert_false(done);
    assert_int_equal(count_now(), 1);
}

/* ---- what is left out ---- */

static void what_makes_no_sense_is_left_out_and_told_once(void **state)
{
    (void)state;
    follow("/a/", NULL);
    put_thing("/a/apples", "apples");
    put("/a/b\"ad\n", "kind: Pod");
    put_thing("/a/pears", "pears");
    assert_int_equal(count_now(), 2);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(last_line, "definition_left_out key=\"/a/b?ad?\" why=\"kind: 'Pod'"));
    put_thing("/a/plums", "plums");
    assert_int_equal(count_now(), 3);
    assert_int_equal(n_lines, 1); /* it is as it was */
    put("/a/b\"ad\n", "kind: Node");
    assert_int_equal(count_now(), 3);
    assert_int_equal(n_lines, 2);
    put("/a/b\"ad\n", manifest("goods", "Good", ""));
    assert_int_equal(count_now(), 4);
    assert_int_equal(n_lines, 2);
}

static void of_one_name_the_first_stays_and_that_is_told_once(void **state)
{
    (void)state;
    follow("/a/", "/a/b"); /* one is inside the other */
    put_thing("/a/banana", "bananas");
    put_thing("/a/cherry", "bananas");
    assert_int_equal(count_now(), 1);
    assert_int_equal(n_lines, 1);
    put_thing("/a/dates", "dates");
    assert_int_equal(count_now(), 2);
    assert_int_equal(n_lines, 1);
}

/* As many as a catalog holds, files included: what is too much does not cost those that fit. */
static void too_many_are_left_out_and_told_once(void **state)
{
    (void)state;
    char key[64], plural[32];
    follow("/a/", NULL);
    struct belfry_wire_header header = {.revision = ++rev};
    assert_int_equal(store->api->begin(store), BELFRY_OK);
    for (uint32_t i = 0; i < KUBE_RESOURCES_MAX + 10; i++) {
        snprintf(plural, sizeof(plural), "t%05u", i);
        snprintf(key, sizeof(key), "/a/%s", plural);
        struct belfry_bytes value = belfry_bytes_str(manifest(plural, plural, ""));
        struct storecheck_event event = storecheck_event(belfry_bytes_str(key), value, rev, NULL);
        struct belfry_bytes prev;
        assert_int_equal(store->api->apply(store, rev, i, &event.event, NULL, &prev), BELFRY_OK);
        storecheck_event_fini(&event);
    }
    assert_int_equal(store->api->advance(store, rev, &header), BELFRY_OK);
    assert_int_equal(store->api->commit(store), BELFRY_OK);
    assert_int_equal(count_now(), KUBE_RESOURCES_MAX);
    assert_int_equal(n_lines, 1);
    assert_int_equal(count_now(), KUBE_RESOURCES_MAX);
    assert_int_equal(n_lines, 1);
}

/* ---- files ---- */

static char folder[] = "/tmp/belfry-definitions-XXXXXX";

static const char *file_of(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
    return path;
}

static enum belfry_err load_file(const char *path, char *why, size_t why_len)
{
    resources[0] = (struct definition_source){.crd = (char *)(uintptr_t)path};
    resources[1] = (struct definition_source){.under = (char *)(uintptr_t) "/a/"};
    sources = (struct definition_sources){.all = resources, .n = 2};
    return definitions_load(&sources, &definitions, why, why_len);
}

static void a_file_wins_over_what_lies_in_etcd(void **state)
{
    (void)state;
    char why[256];
    const char *path = file_of("apples.json", manifest("apples", "FromFile", ""));
    assert_int_equal(load_file(path, why, sizeof(why)), BELFRY_OK);
    struct kube_catalog *first = catalog(); /* nothing is read yet */
    assert_string_equal(found(first, "apples")->kind, "FromFile");
    kube_catalog_unref(first);
    put_thing("/a/apples", "apples");
    put_thing("/a/pears", "pears");
    read_all();
    struct kube_catalog *now = catalog();
    assert_int_equal(kube_catalog_count(now), 2);
    assert_string_equal(found(now, "apples")->kind, "FromFile");
    assert_int_equal(n_lines, 1);
    kube_catalog_unref(now);
    unlink(path);
}

static void a_file_that_cannot_be_used_stops_the_start(void **state)
{
    (void)state;
    char why[256];
    const char *path = file_of("bad.yaml", "kind: Pod\n");
    assert_int_equal(load_file(path, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "bad.yaml: kind: 'Pod'"));
    unlink(path);
    assert_int_equal(load_file(path, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "there is no such file"));
    char registry[] = "/registry/", *scope[] = {registry};
    sources = (struct definition_sources){.all = resources + 1, .n = 1, .scope = scope[0]};
    assert_int_equal(definitions_load(&sources, &definitions, why, sizeof(why)), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "crds-under=/a/ is outside of the scope"));
    assert_null(definitions);
}

/* ---- without memory ---- */

static enum belfry_err life(void)
{
    struct definitions *it = NULL;
    struct kube_catalog *now = NULL;
    char why[256];
    bool done = false;
    enum belfry_err err = definitions_load(&sources, &it, why, sizeof(why));
    while (err == BELFRY_OK && !done)
        err = definitions_read(it, store, 0, &lines, &done);
    if (err == BELFRY_OK)
        err = definitions_catalog(it, &lines, &now);
    kube_catalog_unref(now);
    definitions_destroy(it);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    follow("/a/", NULL);
    put_thing("/a/apples", "apples");
    put("/a/bad", "kind: Pod");
    assert_true(refuse_sweep(life) > 20);
}

int main(void)
{
    if (mkdtemp(folder) == NULL)
        return 1;
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_lies_under_the_prefixes_is_served),
        TEST(many_are_read_in_pieces_of_one_revision),
        TEST(a_store_that_is_behind_is_not_read),
        TEST(what_says_the_same_stays_the_same_resource),
        TEST(in_another_past_an_equal_revision_says_nothing),
        TEST(a_past_that_is_cut_while_it_is_read_is_not_told),
        TEST(what_makes_no_sense_is_left_out_and_told_once),
        TEST(of_one_name_the_first_stays_and_that_is_told_once),
        TEST(too_many_are_left_out_and_told_once),
        TEST(a_file_wins_over_what_lies_in_etcd),
        TEST(a_file_that_cannot_be_used_stops_the_start),
        TEST(no_memory_is_an_error),
    };
#undef TEST
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
