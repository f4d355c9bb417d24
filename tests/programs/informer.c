/* informer: keeps informers on keys of etcd or on a resource of Kubernetes, tells what they tell, and judges it.
 *
 *     informer keys ENDPOINTS PREFIX [--NAME=VALUE ...]
 *     informer resource GROUP/VERSION PLURAL [NAMESPACE] [--NAME=VALUE ...]
 *
 * The names are the library's: those of an informer go to the informer, all others to the session or to the Kubernetes
 * client. Besides:
 *
 *     --many=N      N informers in one session; a '%' in an option of an informer becomes its number
 *     --unchecked   no news is printed and nothing is judged, so that the memory is the library's alone
 *
 * On stdout one JSON object a line; bytes that are not ASCII are written as \u0080 to \u00ff. The first is what "usage"
 * answers, before there are informers. Unasked:
 *
 *     {"kind":"added","informer":0,"handler":0,"key":..,"version":..,"rev":..,"crc":..,"initial":1}
 *     updated (with "old", its version, and "resync"), removed ("missed"), synced, link ("err", "why"), end, paused
 *     {"kind":"violation","informer":0,"handler":0,"wrong":".."}    never, of a library that is right (known.h)
 *     {"kind":"all-synced"}                                         once
 *
 * It obeys one command a line on stdin and answers each; about informer 0, if no number is given:
 *
 *     dump [N]                {"kind":"store",..}, then one {"kind":"object",..,"value":..} each, then
 * {"kind":"stored"} stats [N]               the library's numbers usage                   the process: memory, CPU,
 * threads, descriptors by INDEX VALUE | index NAME PATH | get KEY | under PREFIX add [NAME=VALUE ...]    one more
 * handler; its number is in the answer remove H                that handler pause | resume          pause takes effect
 * with the next news, and is told then close [N] | quit        quit ends everything; exit status 1 when there was a
 * violation
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "commands.h"
#include "known.h"
#include "lines.h"
#include "usage.h"

#define INFORMERS_MAX 20000
#define HANDLERS_MAX  (INFORMERS_MAX + 64)
#define OPTIONS_MAX   32
#define WORDS_MAX     16
#define COMMAND_BYTES 65536
#define VALUE_BYTES   512

struct one {
    struct belfry_informer *informer; /* NULL: closed, or ended */
    bool synced;
};

struct told {
    struct one *of;
    struct belfry_handler *handler; /* NULL: the one that the informer was opened with, or gone */
    struct known known;
};

/* The program is one session and its informers, so they are plain globals. */
static struct belfry *session;
static struct belfry_kube *kube; /* NULL: keys */
static struct one informers[INFORMERS_MAX];
static struct told handlers[HANDLERS_MAX];
static size_t n_informers = 1, n_handlers, n_synced, n_violations;
static bool unchecked, pausing, quitting;

static struct {
    bool is_resource;
    const char *words[3]; /* of the command line, what is no option */
    size_t n_words;
    const char *options[OPTIONS_MAX]; /* of an informer: NAME=VALUE */
    size_t n_options;
    struct belfry_opts *connection;
} conf;

/* ---- lines ---- */

static void put_version(const char *name, const struct belfry_object *object)
{
    printf(",\"%s\":", name);
    if (kube != NULL)
        put_text(belfry_object_version(object));
    else
        printf("\"%" PRId64 "\"", belfry_object_rev(object));
}

static void put_object(const struct belfry_object *object)
{
    fputs(",\"key\":", stdout);
    put_text(belfry_object_key(object));
    put_version("version", object);
    printf(",\"rev\":%" PRId64 ",\"crc\":%" PRIu32, belfry_object_rev(object), crc(belfry_object_value(object)));
}

static void say(const char *kind)
{
    printf("{\"kind\":\"%s\"}\n", kind);
}

static void say_no(int err)
{
    fputs("{\"kind\":\"no\"", stdout);
    put_string("err", belfry_errname(err));
    puts("}");
}

/* ---- news ---- */

static const char *const kind_names[] = {
    [BELFRY_NEWS_ADDED] = "added",   [BELFRY_NEWS_UPDATED] = "updated", [BELFRY_NEWS_REMOVED] = "removed",
    [BELFRY_NEWS_SYNCED] = "synced", [BELFRY_NEWS_LINK] = "link",       [BELFRY_NEWS_END] = "end"};

static void put_head(const char *kind, const struct told *told)
{
    printf("{\"kind\":\"%s\",\"informer\":%td,\"handler\":%td", kind, told->of - informers, told - handlers);
}

static void print_news(const struct told *told, const struct belfry_news *news)
{
    put_head(kind_names[news->kind], told);
    if (news->object != NULL)
        put_object(news->object);
    if (news->old != NULL)
        put_version("old", news->old);
    printf(",\"initial\":%d,\"resync\":%d,\"missed\":%d", news->initial, news->resync, news->missed);
    if (news->kind == BELFRY_NEWS_LINK || news->kind == BELFRY_NEWS_END) {
        put_string("err", belfry_errname(news->err));
        put_string("why", news->why != NULL ? news->why : "");
    }
    puts("}");
}

static void report(const struct told *told, const char *wrong)
{
    n_violations++;
    put_head("violation", told);
    put_string("wrong", wrong);
    puts("}");
}

static void note_synced(struct one *one)
{
    if (one->synced)
        return;
    one->synced = true;
    if (++n_synced == n_informers)
        say("all-synced");
}

/* The informer is gone with its last handler's END. */
static void note_end(struct told *told, const struct belfry_news *news)
{
    told->handler = NULL;
    told->known.ended = true;
    if (unchecked)
        print_news(told, news);
    for (size_t i = 0; i < n_handlers; i++)
        if (handlers[i].of == told->of && !handlers[i].known.ended)
            return;
    told->of->informer = NULL;
}

static enum belfry_next on_news(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    struct told *told = user;
    if (told->of->informer == NULL)
        report(told, "told after it was closed");
    if (!unchecked) {
        const char *wrong = known_judge(&told->known, informer, news);
        print_news(told, news);
        if (wrong != NULL)
            report(told, wrong);
    }
    if (news->kind == BELFRY_NEWS_SYNCED)
        note_synced(told->of);
    if (news->kind == BELFRY_NEWS_END) {
        note_end(told, news);
        return BELFRY_MORE;
    }
    if (!pausing)
        return BELFRY_MORE;
    pausing = false;
    say("paused");
    return BELFRY_PAUSE;
}

/* ---- opening ---- */

static bool is_of_informer(const char *name)
{
    static const char *const names[] = {"resync",        "max-bytes",  "page-bytes", "selector",     "field-selector",
                                        "metadata-only", "chunk-size", "watch-list", "watch-timeout"};
    size_t len = strcspn(name, "=");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == len && strncmp(name, names[i], len) == 0)
            return true;
    return false;
}

static int set_option(struct belfry_opts **opts, const char *pair, size_t number)
{
    char name[64], value[VALUE_BYTES] = "";
    size_t len = strcspn(pair, "="), used = 0;
    if (len >= sizeof(name))
        return BELFRY_ERR_INVALID;
    memcpy(name, pair, len);
    name[len] = 0;
    for (const char *at = pair[len] == '=' ? pair + len + 1 : ""; *at != 0; at++) {
        int n = *at == '%' ? snprintf(value + used, sizeof(value) - used, "%zu", number)
                           : snprintf(value + used, sizeof(value) - used, "%c", *at);
        used += (size_t)n;
        if (used >= sizeof(value))
            return BELFRY_ERR_INVALID;
    }
    int err = belfry_opts_set(opts, name, pair[len] == '=' ? value : NULL);
    if (err)
        fprintf(stderr, "informer: %s\n", belfry_opts_why(*opts));
    return err;
}

static int set_options(struct belfry_opts **opts, const char *const *pairs, size_t n, size_t number)
{
    int err = BELFRY_OK;
    for (size_t i = 0; !err && i < n; i++)
        err = set_option(opts, pairs[i], number);
    return err;
}

static struct told *new_told(struct one *of)
{
    if (n_handlers == HANDLERS_MAX)
        return NULL;
    struct told *told = &handlers[n_handlers++];
    told->of = of;
    return told;
}

static int open_one(size_t number)
{
    struct belfry_opts *opts = NULL;
    struct one *one = &informers[number];
    struct told *told = new_told(one);
    int err = set_options(&opts, conf.options, conf.n_options, number);
    if (!err && conf.is_resource)
        err = belfry_informer_resource(kube, belfry_resource(conf.words[0], conf.words[1], conf.words[2]), opts,
                                       on_news, told, &one->informer);
    else if (!err)
        err = belfry_informer_keys(session, belfry_prefix(conf.words[1]), opts, on_news, told, &one->informer);
    belfry_opts_free(opts);
    if (err)
        fprintf(stderr, "informer: %s\n", belfry_errname(err));
    return err;
}

static int open_session(void)
{
    char why[256] = "";
    int err = belfry_open_why(conf.is_resource ? NULL : conf.words[0], conf.is_resource ? NULL : conf.connection,
                              &session, why, sizeof(why));
    if (!err && conf.is_resource)
        err = belfry_kube_open(session, conf.connection, &kube, why, sizeof(why));
    if (err)
        fprintf(stderr, "informer: %s: %s\n", belfry_errname(err), why);
    return err;
}

/* ---- commands ---- */

static struct one *named(char **words, size_t n)
{
    size_t number = n > 1 ? strtoul(words[1], NULL, 10) : 0;
    return number < n_informers && informers[number].informer != NULL ? &informers[number] : NULL;
}

static void do_dump(const struct one *one)
{
    const struct belfry_object *at = NULL;
    printf("{\"kind\":\"store\",\"informer\":%td,\"synced\":%d,\"count\":%zu}\n", one - informers,
           belfry_informer_synced(one->informer), belfry_informer_count(one->informer));
    while ((at = belfry_informer_next(one->informer, (struct belfry_bytes){NULL, 0}, at)) != NULL) {
        fputs("{\"kind\":\"object\"", stdout);
        put_object(at);
        fputs(",\"value\":", stdout);
        put_text(belfry_object_value(at));
        puts("}");
    }
    for (size_t i = 0; !unchecked && i < n_handlers; i++) {
        const struct told *told = &handlers[i];
        const char *wrong = NULL;
        if (told->of == one && told->known.synced && !told->known.ended)
            wrong = known_judge_all(&told->known, one->informer);
        if (wrong != NULL)
            report(told, wrong);
    }
    say("stored");
}

static void put_kube_stats(void)
{
    const struct belfry_kube_stats *s = belfry_kube_get_stats(kube);
    put_number("requests", s->requests);
    put_number("request_retries", s->retries);
    put_number("connects", s->connects);
    put_number("losses", s->losses);
    put_number("events", s->events);
    put_number("decode_errors", s->decode_errors);
    put_number("token_reads", s->token_reads);
    put_number("connections", s->connections);
    put_number("http2", s->http2);
}

static void put_session_stats(void)
{
    const struct belfry_stats *s = belfry_get_stats(session);
    put_number("connects", s->connects);
    put_number("losses", s->losses);
    put_number("resumes", s->resumes);
    put_number("parked", s->parked);
    put_number("events", s->events);
    put_number("log_ins", s->log_ins);
}

static void do_stats(const struct one *one)
{
    const struct belfry_informer_stats *s = belfry_informer_get_stats(one->informer);
    fputs("{\"kind\":\"stats\"", stdout);
    put_number("objects", s->objects);
    put_number("bytes", s->bytes);
    put_number("object_bytes", s->object_bytes);
    put_number("changes", s->changes);
    put_number("lists", s->lists);
    put_number("relists", s->relists);
    put_number("watches", s->watches);
    put_number("retries", s->retries);
    put_number("undecoded", s->undecoded);
    put_number("violations", n_violations);
    if (kube != NULL)
        put_kube_stats();
    else
        put_session_stats();
    puts("}");
}

static void begin_keys(void)
{
    fputs("{\"kind\":\"keys\",\"keys\":[", stdout);
}

static void put_key(const struct belfry_object *object, bool first)
{
    if (!first)
        putchar(',');
    put_text(belfry_object_key(object));
}

static void do_by(const struct one *one, const char *name, const char *value)
{
    struct belfry_bytes wanted = {value, strlen(value)};
    begin_keys();
    for (const struct belfry_object *at = NULL, *last = NULL;
         (at = belfry_informer_by(one->informer, name, wanted, last)) != NULL; last = at)
        put_key(at, last == NULL);
    puts("]}");
}

static void do_under(const struct one *one, const char *prefix)
{
    struct belfry_bytes wanted = {prefix, strlen(prefix)};
    begin_keys();
    for (const struct belfry_object *at = NULL, *last = NULL;
         (at = belfry_informer_next(one->informer, wanted, last)) != NULL; last = at)
        put_key(at, last == NULL);
    puts("]}");
}

static void do_get(const struct one *one, const char *key)
{
    const struct belfry_object *found = belfry_informer_get(one->informer, (struct belfry_bytes){key, strlen(key)});
    if (found == NULL) {
        say_no(BELFRY_ERR_NOT_FOUND);
        return;
    }
    fputs("{\"kind\":\"object\"", stdout);
    put_object(found);
    fputs(",\"value\":", stdout);
    put_text(belfry_object_value(found));
    puts("}");
}

static void do_add(struct one *one, char **pairs, size_t n)
{
    struct belfry_opts *opts = NULL;
    struct told *told = new_told(one);
    int err = told == NULL ? BELFRY_ERR_LIMIT : BELFRY_OK;
    for (size_t i = 0; !err && i < n; i++)
        err = set_option(&opts, pairs[i], 0);
    if (!err)
        err = belfry_informer_add(one->informer, opts, on_news, told, &told->handler);
    belfry_opts_free(opts);
    if (err)
        say_no(err);
    else
        printf("{\"kind\":\"handler\",\"handler\":%td}\n", told - handlers);
}

static void do_remove(size_t number)
{
    if (number >= n_handlers || handlers[number].handler == NULL) {
        say_no(BELFRY_ERR_INVALID);
        return;
    }
    belfry_handler_remove(handlers[number].handler);
    handlers[number].handler = NULL;
    handlers[number].known.ended = true; /* what comes now is told after its end */
    say("ok");
}

static void do_close(struct one *one)
{
    belfry_informer_close(one->informer);
    one->informer = NULL;
    for (size_t i = 0; i < n_handlers; i++)
        if (handlers[i].of == one)
            handlers[i].handler = NULL; /* gone with it */
    say("ok");
}

static void do_pause(void)
{
    pausing = true;
    say("ok");
}

/* Commands about one informer. False: it is none. */
static bool obey_about(struct one *one, char **words, size_t n)
{
    const char *verb = words[0];
    if (strcmp(verb, "dump") == 0)
        do_dump(one);
    else if (strcmp(verb, "stats") == 0)
        do_stats(one);
    else if (strcmp(verb, "close") == 0)
        do_close(one);
    else if (strcmp(verb, "add") == 0)
        do_add(one, words + 1, n - 1);
    else if (strcmp(verb, "by") == 0 && n == 3)
        do_by(one, words[1], words[2]);
    else if (strcmp(verb, "under") == 0 && n == 2)
        do_under(one, words[1]);
    else if (strcmp(verb, "get") == 0 && n == 2)
        do_get(one, words[1]);
    else if (strcmp(verb, "index") == 0 && n == 3) {
        int err = belfry_informer_index_path(one->informer, words[1], words[2]);
        if (err)
            say_no(err);
        else
            say("ok");
    } else if (strcmp(verb, "resume") == 0) {
        belfry_informer_resume(one->informer);
        say("ok");
    } else {
        return false;
    }
    return true;
}

static void obey(char *line)
{
    char *words[WORDS_MAX];
    size_t n = 0;
    for (char *w = strtok(line, " "); w != NULL && n < WORDS_MAX; w = strtok(NULL, " "))
        words[n++] = w;
    if (n == 0)
        return;
    bool numbered = strcmp(words[0], "dump") == 0 || strcmp(words[0], "stats") == 0 || strcmp(words[0], "close") == 0;
    struct one *one = named(words, numbered ? n : 1);
    if (strcmp(words[0], "quit") == 0)
        quitting = true;
    else if (strcmp(words[0], "usage") == 0)
        print_usage();
    else if (strcmp(words[0], "pause") == 0)
        do_pause();
    else if (strcmp(words[0], "remove") == 0 && n == 2)
        do_remove(strtoul(words[1], NULL, 10));
    else if (one == NULL)
        say_no(BELFRY_ERR_NOT_FOUND);
    else if (!obey_about(one, words, n))
        say_no(BELFRY_ERR_INVALID);
}

/* End of input is "quit". */
static void read_commands(void)
{
    static char buf[COMMAND_BYTES];
    static struct commands in = {.buf = buf, .size = sizeof(buf)};
    commands_read(&in, obey, &quitting);
}

static int loop(void)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = belfry_fd(session), .events = POLLIN}};
    while (!quitting) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (fds[0].revents)
            read_commands();
        if (fds[1].revents && belfry_dispatch(session) != BELFRY_OK)
            return 1;
        fflush(stdout);
    }
    return 0;
}

/* ---- the command line ---- */

static int read_option(const char *text)
{
    if (strncmp(text, "many=", 5) == 0) {
        n_informers = strtoul(text + 5, NULL, 10);
        return n_informers > 0 && n_informers <= INFORMERS_MAX ? BELFRY_OK : BELFRY_ERR_INVALID;
    }
    if (strcmp(text, "unchecked") == 0) {
        unchecked = true;
        return BELFRY_OK;
    }
    if (!is_of_informer(text))
        return set_option(&conf.connection, text, 0);
    if (conf.n_options == OPTIONS_MAX)
        return BELFRY_ERR_LIMIT;
    conf.options[conf.n_options++] = text;
    return BELFRY_OK;
}

static int read_arguments(int argc, char **argv)
{
    if (argc < 2 || (strcmp(argv[1], "keys") != 0 && strcmp(argv[1], "resource") != 0))
        return BELFRY_ERR_INVALID;
    conf.is_resource = strcmp(argv[1], "resource") == 0;
    int err = BELFRY_OK;
    for (int i = 2; !err && i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0)
            err = read_option(argv[i] + 2);
        else if (conf.n_words < 3)
            conf.words[conf.n_words++] = argv[i];
        else
            err = BELFRY_ERR_INVALID;
    }
    return err || conf.n_words < 2 || (!conf.is_resource && conf.n_words > 2) ? BELFRY_ERR_INVALID : BELFRY_OK;
}

static int run(void)
{
    int err = open_session();
    if (!err)
        print_usage(); /* what it takes before there are informers */
    for (size_t i = 0; !err && i < n_informers; i++)
        err = open_one(i);
    fflush(stdout);
    return err ? 1 : loop();
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    crc_init();
    if (read_arguments(argc, argv) != BELFRY_OK) {
        fprintf(stderr, "usage: informer keys ENDPOINTS PREFIX [--NAME=VALUE ...]\n"
                        "       informer resource GROUP/VERSION PLURAL [NAMESPACE] [--NAME=VALUE ...]\n");
        belfry_opts_free(conf.connection);
        return 2;
    }
    int status = run();
    belfry_opts_free(conf.connection);
    belfry_close(session); /* tells END to those who are open */
    for (size_t i = 0; i < n_handlers; i++)
        known_free(&handlers[i].known);
    return status != 0 || n_violations > 0 ? 1 : 0;
}
