/* src/daemon/logger_test.c */
#include "daemon/logger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <yyjson.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "support/refuse.h"

#define NOON 1700000000123u /* 2023-11-14T22:13:20.123Z */

struct bench {
    struct logger *logger;
    int from, to;
    uint64_t now_ms;
    char got[65536];
};

static uint64_t bench_now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

/* As systemd sets JOURNAL_STREAM for a descriptor; `other` 0: it is this one. */
static void name_journal(int fd, unsigned other)
{
    char stream[64];
    struct stat is;
    assert_int_equal(fstat(fd, &is), 0);
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)is.st_dev, (uintmax_t)is.st_ino + other);
    setenv("JOURNAL_STREAM", stream, 1);
}

enum reader { READER_PIPE, READER_JOURNAL };

static void setup_for(struct bench *b, enum config_format format, enum reader reader)
{
    int ends[2];
    *b = (struct bench){.now_ms = NOON};
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    b->from = ends[0];
    b->to = ends[1];
    if (reader == READER_JOURNAL)
        name_journal(b->to, 0);
    assert_int_equal(logger_create(BELFRY_LOG_INFO, format, b->to, &b->logger), BELFRY_OK);
    unsetenv("JOURNAL_STREAM");
    logger_set_clock(b->logger, bench_now, b);
}

static void setup(struct bench *b, enum config_format format)
{
    setup_for(b, format, READER_PIPE);
}

/* What was written since the last time. */
static const char *got(struct bench *b)
{
    ssize_t len = read(b->from, b->got, sizeof(b->got) - 1);
    b->got[len < 0 ? 0 : len] = '\0';
    return b->got;
}

static void teardown(struct bench *b)
{
    logger_destroy(b->logger);
    close(b->from);
    close(b->to);
}

/* The next line of the bench. */
static const char *say(struct bench *b, const char *event, const char *text)
{
    const struct belfry_log *log = logger_log(b->logger);
    log->line(BELFRY_LOG_WARN, event, text, log->user);
    size_t len = strlen(got(b));
    assert_true(len > 0 && len <= PIPE_BUF);
    assert_ptr_equal(strchr(b->got, '\n'), b->got + len - 1);
    return b->got;
}

/* The first line of a logger, at noon. */
static const char *line_of(enum config_format format, enum reader reader, const char *event, const char *text)
{
    static struct bench b;
    setup_for(&b, format, reader);
    say(&b, event, text);
    teardown(&b);
    return b.got;
}

/* ---- lines ---- */

static void logfmt_has_time_level_event_and_text(void **state)
{
    (void)state;
    assert_string_equal(line_of(CONFIG_LOGFMT, READER_PIPE, "watch_resync", "peer=10.0.0.7 why=\"a b\""),
                        "ts=2023-11-14T22:13:20.123Z level=warn event=watch_resync peer=10.0.0.7 why=\"a b\"\n");
    assert_string_equal(line_of(CONFIG_LOGFMT, READER_PIPE, "ready", ""),
                        "ts=2023-11-14T22:13:20.123Z level=warn event=ready\n");
}

static void no_line_can_be_forged(void **state)
{
    (void)state;
    assert_string_equal(line_of(CONFIG_LOGFMT, READER_JOURNAL, "x", "why=\"a\nlevel=info\x1b[2J\x7f\""),
                        "<4>level=warn event=x why=\"a?level=info?[2J?\"\n");
}

static void the_journal_gets_a_level_and_no_time(void **state)
{
    (void)state;
    assert_string_equal(line_of(CONFIG_LOGFMT, READER_JOURNAL, "x", "a=1"), "<4>level=warn event=x a=1\n");
    assert_string_equal(line_of(CONFIG_JSON, READER_JOURNAL, "x", "a=1"),
                        "<4>{\"level\":\"warn\",\"event\":\"x\",\"a\":1}\n");
}

static void json_splits_pairs_and_escapes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *pairs;
    } cases[] = {
        {"", ""},
        {"rev=48120733 peer=10.0.0.7", ",\"rev\":48120733,\"peer\":\"10.0.0.7\""},
        {"a=-5 b=0 c=007 d=-0 e=1234567890123456 f=- g=1.5", ",\"a\":-5,\"b\":0,\"c\":\"007\",\"d\":\"-0\",\"e\":"
                                                             "\"1234567890123456\",\"f\":\"-\",\"g\":\"1.5\""},
        {"n=\"5\"", ",\"n\":\"5\""},
        {"why=\"connection refused\" n=1", ",\"why\":\"connection refused\",\"n\":1"},
        {"why=\"a\\\" b\" n=1", ",\"why\":\"a\\\" b\",\"n\":1"},
        {"why=\"a\\\\\" n=1", ",\"why\":\"a\\\\\",\"n\":1"},
        {"why=\"C:\\dir\" n=1", ",\"why\":\"C:\\\\dir\",\"n\":1"},
        {"why=\"cut", ",\"why\":\"cut\""},
        {"why=\"", ",\"why\":\"\""},
        {"why=\"\" a=", ",\"why\":\"\",\"a\":\"\""},
        {"k=a\\b", ",\"k\":\"a\\\\b\""},
        {"k=\x01\n\x7f", ",\"k\":\"\\u0001\\u000a\\u007f\""},
        {"k=\xc3\xa9\xff\xc3", ",\"k\":\"\xc3\xa9\\ufffd\\ufffd\""},
        {"just words a=1", ",\"msg\":\"just words a=1\""},
        {"a=1 =b", ",\"a\":1,\"msg\":\"=b\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char want[512];
        snprintf(want, sizeof(want), "{\"ts\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"event\":\"x\"%s}\n",
                 cases[i].pairs);
        assert_string_equal(line_of(CONFIG_JSON, READER_PIPE, "x", cases[i].text), want);
    }
}

static void the_longest_text_stays_a_whole_line(void **state)
{
    (void)state;
    char text[2000], event[200];
    memset(event, 'e', sizeof(event) - 1);
    event[sizeof(event) - 1] = '\0';
    memset(text, '\x01', sizeof(text) - 1);
    text[0] = 'k';
    text[1] = '=';
    text[sizeof(text) - 1] = '\0';
    const char *line = line_of(CONFIG_JSON, READER_PIPE, event, text);
    assert_string_equal(line + strlen(line) - 9, "\\u0001\"}\n");
    assert_true(strlen(line) > 6 * (BELFRY_LOG_TEXT - 3));
}

/* ---- what arguments hold ---- */

struct said {
    char text[BELFRY_LOG_TEXT];
};

static void note_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct said *said = user;
    (void)level;
    (void)event;
    snprintf(said->text, sizeof(said->text), "%s", text);
}

static void draw_value(struct belfry_rng *rng, char out[24])
{
    static const char letters[] = "\"\"\\\\  ==ab{}:,\n\x01\x7f\xc3\xa9\xff";
    size_t len = (size_t)belfry_rng_below(rng, 23);
    for (size_t i = 0; i < len; i++)
        out[i] = letters[belfry_rng_below(rng, sizeof(letters) - 1)];
    out[len] = '\0';
}

/* As a reader of logfmt does: the value of a pair, and what follows it. */
static const char *read_value(const char *at, const char *name, char out[64])
{
    size_t n = 0;
    assert_int_equal(strncmp(at, name, strlen(name)), 0);
    at += strlen(name);
    assert_int_equal(*at++, '=');
    if (*at != '"') {
        while (*at != ' ' && *at != '\n')
            out[n++] = *at++;
    } else {
        for (at++; *at != '"'; at++) {
            at += *at == '\\';
            assert_true(*at != '\n' && *at != '\0');
            out[n++] = *at;
        }
        at++;
    }
    out[n] = '\0';
    assert_true(*at == ' ' || *at == '\n');
    return at + 1;
}

/* Control characters are "?" in logfmt. */
static void assert_same(const char *read, const char *value)
{
    assert_int_equal(strlen(read), strlen(value));
    for (size_t i = 0; value[i] != '\0'; i++)
        assert_int_equal(read[i], (unsigned char)value[i] < ' ' || value[i] == 0x7f ? '?' : value[i]);
}

static bool is_utf8(const char *text)
{
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        uint32_t code;
        if ((n = belfry_utf8_next(text, left, &code)) == 0)
            return false;
    }
    return true;
}

/* Whatever they hold, a line has the pairs that its format names, with these values, in both forms. */
static void random_arguments_keep_their_pairs(void **state)
{
    (void)state;
    struct said said;
    struct belfry_log log = {.line = note_line, .user = &said, .level = BELFRY_LOG_INFO};
    struct belfry_rng rng = {.state = 20251118};
    static struct bench logfmt, json;
    setup_for(&logfmt, CONFIG_LOGFMT, READER_JOURNAL);
    setup(&json, CONFIG_JSON);
    for (int round = 0; round < 20000; round++) {
        char why[24], user[24], value[64];
        draw_value(&rng, why);
        draw_value(&rng, user);
        belfry_logf(&log, BELFRY_LOG_WARN, "x", "user=%s why=\"%s\" n=%d", user, why, round);
        logfmt.now_ms = json.now_ms += 1000; /* no line is held back */
        const char *line = say(&logfmt, "x", said.text);
        const char *at = read_value(strstr(line, "user="), "user", value);
        assert_same(value, user);
        at = read_value(at, "why", value);
        assert_same(value, why);
        at = read_value(at, "n", value);
        assert_int_equal(atoi(value), round);
        assert_int_equal(*at, '\0');
        line = say(&json, "x", said.text);
        yyjson_doc *doc = yyjson_read(line, strlen(line), 0);
        assert_non_null(doc);
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert_int_equal(yyjson_obj_size(root), 6); /* ts, level, event, and ours */
        assert_int_equal(yyjson_get_int(yyjson_obj_get(root, "n")), round);
        if (is_utf8(why))
            assert_string_equal(yyjson_get_str(yyjson_obj_get(root, "why")), why);
        if (is_utf8(user))
            assert_string_equal(yyjson_get_str(yyjson_obj_get(root, "user")), user);
        yyjson_doc_free(doc);
    }
    teardown(&logfmt);
    teardown(&json);
}

/* ---- the logger ---- */

static unsigned n_lines(const char *text)
{
    unsigned n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

static void a_line_goes_through_the_hook_by_level(void **state)
{
    (void)state;
    struct bench b;
    setup(&b, CONFIG_JSON);
    belfry_logf(logger_log(b.logger), BELFRY_LOG_INFO, "ready", "rev=%d", 7);
    belfry_logf(logger_log(b.logger), BELFRY_LOG_DEBUG, "unheard", "a=1");
    assert_string_equal(got(&b),
                        "{\"ts\":\"2023-11-14T22:13:20.123Z\",\"level\":\"info\",\"event\":\"ready\",\"rev\":7}\n");
    teardown(&b);
}

static void a_flood_of_one_event_is_held_back_and_counted(void **state)
{
    (void)state;
    struct bench b;
    setup(&b, CONFIG_LOGFMT);
    const struct belfry_log *log = logger_log(b.logger);
    for (int i = 0; i < 35; i++)
        belfry_logf(log, BELFRY_LOG_WARN, "flood", "i=%d", i);
    belfry_logf(log, BELFRY_LOG_INFO, "calm", "a=1");
    assert_int_equal(n_lines(got(&b)), 11);
    assert_non_null(strstr(b.got, "event=flood i=9\n"));
    assert_null(strstr(b.got, "i=10"));
    assert_non_null(strstr(b.got, "event=calm"));
    logger_tick(b.logger);
    assert_string_equal(got(&b), ""); /* the second is not over */
    b.now_ms += 1000;
    belfry_logf(log, BELFRY_LOG_INFO, "calm", "a=2");
    assert_string_equal(got(&b), "ts=2023-11-14T22:13:21.123Z level=warn event=flood held_back=25\n"
                                 "ts=2023-11-14T22:13:21.123Z level=info event=calm a=2\n");
    belfry_logf(log, BELFRY_LOG_WARN, "flood", "i=35");
    assert_int_equal(n_lines(got(&b)), 1); /* a new second */
    teardown(&b);
}

static void what_was_held_back_is_told_by_a_tick_and_at_the_end(void **state)
{
    (void)state;
    struct bench b;
    setup(&b, CONFIG_LOGFMT);
    for (int i = 0; i < 11; i++)
        belfry_logf(logger_log(b.logger), BELFRY_LOG_ERROR, "flood", "i=%d", i);
    assert_int_equal(n_lines(got(&b)), 10);
    b.now_ms -= 5000; /* a clock set back is a new second too */
    logger_tick(b.logger);
    assert_non_null(strstr(got(&b), "level=error event=flood held_back=1\n"));
    logger_tick(b.logger);
    assert_string_equal(got(&b), "");
    for (int i = 0; i < 12; i++)
        belfry_logf(logger_log(b.logger), BELFRY_LOG_ERROR, "flood", "i=%d", i);
    assert_int_equal(n_lines(got(&b)), 10);
    logger_destroy(b.logger);
    b.logger = NULL;
    assert_non_null(strstr(got(&b), "held_back=2\n"));
    teardown(&b);
}

static void more_events_than_are_counted_are_let_through(void **state)
{
    (void)state;
    struct bench b;
    char event[32];
    setup(&b, CONFIG_LOGFMT);
    for (int i = 0; i < 64; i++) {
        snprintf(event, sizeof(event), "event_%d", i);
        belfry_logf(logger_log(b.logger), BELFRY_LOG_WARN, event, "a=1");
    }
    assert_int_equal(n_lines(got(&b)), 64);
    for (int i = 0; i < 20; i++)
        belfry_logf(logger_log(b.logger), BELFRY_LOG_WARN, "beyond", "a=1");
    assert_int_equal(n_lines(got(&b)), 20);
    teardown(&b);
}

static void journal_counts_only_if_the_descriptor_is_it(void **state)
{
    (void)state;
    int ends[2];
    char line[256] = "";
    struct logger *logger;
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    for (unsigned other = 0; other <= 1; other++) {
        name_journal(ends[1], other);
        assert_int_equal(logger_create(BELFRY_LOG_INFO, CONFIG_LOGFMT, ends[1], &logger), BELFRY_OK);
        belfry_logf(logger_log(logger), BELFRY_LOG_ERROR, "x", "a=1");
        logger_destroy(logger);
        assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
        assert_int_equal(strncmp(line, other ? "ts=" : "<3>level=error event=x", other ? 3 : 22), 0);
    }
    unsetenv("JOURNAL_STREAM");
    close(ends[0]);
    close(ends[1]);
}

/* ---- threads ---- */

#define N_THREADS 4
#define N_EACH    2000

struct talker {
    const struct belfry_log *log;
    char letter;
};

static void *talk(void *user)
{
    const struct talker *talker = user;
    char text[300], event[32];
    memset(text, talker->letter, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < N_EACH; i++) {
        snprintf(event, sizeof(event), "e%d", i % 16); /* some held back, some told of */
        belfry_logf(talker->log, BELFRY_LOG_INFO, event, "t=%s", text);
    }
    return NULL;
}

/* Every line is whole: its text one letter all along. */
static unsigned check_lines(FILE *file, unsigned *n_held)
{
    char line[PIPE_BUF];
    unsigned n = 0, held;
    while (fgets(line, sizeof(line), file) != NULL) {
        assert_int_equal(strncmp(line, "ts=", 3), 0);
        char *text = strstr(line, " t="), *back = strstr(line, "held_back=");
        if (back != NULL && sscanf(back, "held_back=%u\n", &held) == 1) {
            *n_held += held;
            continue;
        }
        assert_non_null(text);
        assert_int_equal(strspn(text + 3, (char[]){text[3], '\0'}), 299);
        assert_string_equal(text + 3 + 299, "\n");
        n++;
    }
    return n;
}

static void lines_of_several_threads_do_not_mix_and_none_is_lost(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    struct logger *logger;
    pthread_t threads[N_THREADS];
    struct talker talkers[N_THREADS];
    unsigned n_held = 0;
    assert_non_null(file);
    assert_int_equal(logger_create(BELFRY_LOG_INFO, CONFIG_LOGFMT, fileno(file), &logger), BELFRY_OK);
    for (int i = 0; i < N_THREADS; i++) {
        talkers[i] = (struct talker){logger_log(logger), (char)('a' + i)};
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &talkers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    logger_destroy(logger);
    rewind(file);
    unsigned n = check_lines(file, &n_held);
    assert_true(n >= 160);
    assert_int_equal(n + n_held, N_THREADS * N_EACH);
    fclose(file);
}

static enum belfry_err scenario(void)
{
    struct logger *logger;
    enum belfry_err err = logger_create(BELFRY_LOG_INFO, CONFIG_JSON, -1, &logger);
    if (err != BELFRY_OK)
        return err;
    belfry_logf(logger_log(logger), BELFRY_LOG_INFO, "x", "a=1");
    logger_destroy(logger);
    return BELFRY_OK;
}

static void a_refused_allocation_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1); /* a line allocates nothing */
    logger_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logfmt_has_time_level_event_and_text),
        cmocka_unit_test(no_line_can_be_forged),
        cmocka_unit_test(the_journal_gets_a_level_and_no_time),
        cmocka_unit_test(json_splits_pairs_and_escapes),
        cmocka_unit_test(the_longest_text_stays_a_whole_line),
        cmocka_unit_test(random_arguments_keep_their_pairs),
        cmocka_unit_test(a_line_goes_through_the_hook_by_level),
        cmocka_unit_test(a_flood_of_one_event_is_held_back_and_counted),
        cmocka_unit_test(what_was_held_back_is_told_by_a_tick_and_at_the_end),
        cmocka_unit_test(more_events_than_are_counted_are_let_through),
        cmocka_unit_test(journal_counts_only_if_the_descriptor_is_it),
        cmocka_unit_test(lines_of_several_threads_do_not_mix_and_none_is_lost),
        cmocka_unit_test(a_refused_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
