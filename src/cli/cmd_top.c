/* src/cli/cmd_top.c: asks an admin address again and again, and draws; or once. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/http_get.h"
#include "cli/out/form.h"
#include "cli/out/out.h"
#include "cli/out/out_table.h"
#include "cli/top/top_key.h"
#include "cli/top/top_screen.h"
#include "cli/top/top_table.h"

#define INTERVAL_MS_MIN 200
#define FILTER          256

#define CLIENTS_MAX  1000 /* rows of clients that a belfryd tells; of watchers: */
#define WATCHERS_MAX 10000

static const char *const watcher_sorts[] = {"lag", "sent", "age", NULL};
static const char *const client_sorts[] = {"cpu", "memory", "calls", "connections", NULL};
static const char *const groups[] = {"", "range", "peer", "state", NULL};

/* What is asked for, and what came last. */
struct top {
    const char *admin;
    int timeout_ms;
    int64_t limit;
    bool clients;                            /* a table of clients; else of watchers */
    bool hour;                               /* the last hour is asked for, too, and shown instead */
    size_t watcher_sort, client_sort, group; /* in the words above */
    char filter[FILTER];
    struct http_page numbers, table, last_hour;
    struct top_data data;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- asking ---- */

static const char *sort_word(const struct top *top)
{
    return top->clients ? client_sorts[top->client_sort] : watcher_sorts[top->watcher_sort];
}

/* Groups are in an order of their own. */
static const char *table_sort(const struct top *top)
{
    return top->group > 0 && !top->clients ? "" : sort_word(top);
}

static void add_filter(const struct top *top, char *path, size_t at, size_t len)
{
    if (top->filter[0] != '\0')
        at += (size_t)snprintf(path + at, len - at, "&filter=");
    for (const char *c = top->filter; *c != '\0' && at + 4 < len; c++)
        at += (size_t)snprintf(path + at, len - at, isalnum((unsigned char)*c) ? "%c" : "%%%02X", (unsigned char)*c);
}

static void clients_path(const struct top *top, char *path, size_t len)
{
    int64_t limit = top->limit < CLIENTS_MAX ? top->limit : CLIENTS_MAX;
    size_t at = (size_t)snprintf(path, len, "/debug/clients?sort=%s&limit=%lld", sort_word(top), (long long)limit);
    add_filter(top, path, at, len);
}

static void watchers_path(const struct top *top, char *path, size_t len)
{
    size_t at =
        (size_t)snprintf(path, len, "/debug/watchers?sort=%s&limit=%lld", sort_word(top), (long long)top->limit);
    if (top->group > 0)
        at += (size_t)snprintf(path + at, len - at, "&group=%s", groups[top->group]);
    add_filter(top, path, at, len);
}

static enum belfry_err ask_page(const struct top *top, const char *path, struct http_page *out, char *why)
{
    enum belfry_err err = http_get(top->admin, path, top->timeout_ms, out, why);
    if (err != BELFRY_OK || out->status == 200)
        return err;
    snprintf(why, HTTP_GET_WHY, "%.100s%.60s: answered %d: %.40s", top->admin, path, out->status,
             out->status == 404                ? "is that the admin address of a belfryd?"
             : strtok(out->body, "\n") != NULL ? out->body
                                               : "");
    http_page_fini(out);
    return BELFRY_ERR_REFUSED;
}

static void forget(struct top *top)
{
    top_data_fini(&top->data);
    http_page_fini(&top->numbers);
    http_page_fini(&top->table);
    http_page_fini(&top->last_hour);
}

/* On success what was there before is forgotten; on failure it is kept, and the reason is in why. */
static enum belfry_err ask(struct top *top, char why[HTTP_GET_WHY])
{
    struct http_page numbers = {0}, table = {0}, last_hour = {0};
    struct top_data data = {0};
    char path[FILTER * 3 + 128];
    if (top->clients)
        clients_path(top, path, sizeof(path));
    else
        watchers_path(top, path, sizeof(path));
    enum belfry_err err = ask_page(top, "/debug/numbers", &numbers, why);
    if (err == BELFRY_OK)
        err = ask_page(top, path, &table, why);
    if (err == BELFRY_OK && top->hour)
        err = ask_page(top, "/debug/hour", &last_hour, why);
    if (err == BELFRY_OK) {
        snprintf(why, HTTP_GET_WHY, "%.128s: the server there is not a belfryd", top->admin);
        err = top_data_read(numbers.body, numbers.len, table.body, table.len, &data);
    }
    if (err != BELFRY_OK) {
        top_data_fini(&data);
        http_page_fini(&numbers);
        http_page_fini(&table);
        http_page_fini(&last_hour);
        return err;
    }
    forget(top);
    top->numbers = numbers;
    top->table = table;
    top->last_hour = last_hour;
    top->data = data;
    return BELFRY_OK;
}

/* NULL: the table is shown; also until the hour has come that was just asked for. */
static const struct http_page *shown_hour(const struct top *top)
{
    return top->hour && top->last_hour.body != NULL ? &top->last_hour : NULL;
}

/* ---- once ---- */

static void print_document(const char *name, const struct http_page *page)
{
    size_t len = page->len;
    while (len > 0 && page->body[len - 1] == '\n')
        len--;
    printf("\"%s\":", name);
    fwrite(page->body, 1, len, stdout);
}

static enum exit_code run_once(struct top *top, enum form form)
{
    char why[HTTP_GET_WHY];
    enum belfry_err err = ask(top, why);
    if (err != BELFRY_OK)
        return report_admin(err, why);
    if (form == FORM_LINES) {
        putchar('{');
        print_document("numbers", &top->numbers);
        putchar(',');
        print_document(top->clients ? "clients" : "watchers", &top->table);
        if (top->hour) {
            putchar(',');
            print_document("hour", &top->last_hour);
        }
        puts("}");
    } else {
        struct top_view view = {.sort = table_sort(top), .hour = shown_hour(top), .line_end = "\n"};
        top_screen_write(stdout, &top->data, &view);
    }
    return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
}

/* ---- the terminal ---- */

static struct termios as_it_was; /* a signal handler has no other way to know */
static const char restore_text[] = "\033[?25h\033[?1049l";

static void terminal_restore(void)
{
    ssize_t n = write(STDOUT_FILENO, restore_text, sizeof(restore_text) - 1);
    (void)n; /* nothing is left to be done about a terminal that is gone */
    tcsetattr(STDIN_FILENO, TCSANOW, &as_it_was);
}

static void restore_and_end(int signal_number)
{
    terminal_restore();
    _exit(signal_number == SIGINT ? EXIT_INTERRUPTED : 128 + signal_number);
}

static void wake(int signal_number)
{
    (void)signal_number; /* SIGWINCH: poll() returns, and the next frame has the new size */
}

static bool terminal_take(void)
{
    static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction end = {.sa_handler = restore_and_end}, resized = {.sa_handler = wake};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (tcgetattr(STDIN_FILENO, &as_it_was) != 0)
        return false;
    for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
        sigaction(deadly[i], &end, NULL);
    sigaction(SIGWINCH, &resized, NULL);
    sigaction(SIGTSTP, &ignore, NULL); /* it would leave the terminal as it is now to the shell */
    struct termios raw = as_it_was;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0)
        return false;
    fputs("\033[?1049h\033[?25l", stdout);
    return true;
}

/* ---- live ---- */

enum mode {
    MODE_TABLE,
    MODE_TYPING, /* a filter */
    MODE_HELP
};

struct screen {
    struct top *top;
    int64_t interval_ms, asked_ms;
    struct top_numbers before; /* of the frame before; its texts are not used */
    bool has_before;
    uint64_t elapsed_ms;
    enum mode mode;
    char typed[FILTER];
    size_t first, page;     /* rows: the first that is shown, and how many there is room for */
    char why[HTTP_GET_WHY]; /* why the last question had no answer; "" */
    bool over;
};

/* Which rows are shown, and the keys that change it. */
static void describe_keys(const struct screen *screen, char *out, size_t len)
{
    const struct top *top = screen->top;
    size_t n = top_table_rows(&top->data), last = screen->first + screen->page < n ? screen->first + screen->page : n;
    size_t at = (size_t)snprintf(out, len, "%zu-%zu of %zu  ?:help s:sort(%s) ", n > 0 ? screen->first + 1 : 0, last, n,
                                 sort_word(top));
    if (top->clients)
        snprintf(out + at, len - at, "c:watchers h:hour q:quit /:filter(%s)", top->filter);
    else
        snprintf(out + at, len - at, "g:group(%s) c:clients h:hour q:quit /:filter(%s)",
                 top->group == 0 ? "no" : groups[top->group], top->filter);
}

/* The last line of the terminal: what is typed, what went wrong, or the keys. */
static void draw_last_line(const struct screen *screen, const struct top_view *view)
{
    char keys[FILTER + 128];
    size_t lines = view->lines > 0 ? view->lines : 24, columns = view->columns > 0 ? view->columns : 80;
    printf("\033[%zu;1H", lines);
    describe_keys(screen, keys, sizeof(keys));
    bool typing = screen->mode == MODE_TYPING, failed = screen->why[0] != '\0';
    const char *label = typing   ? "filter: "
                        : failed ? "! "
                                 : "",
               *text = typing   ? screen->typed
                       : failed ? screen->why
                                : keys;
    size_t room = columns > strlen(label) ? columns - strlen(label) - 1 : 0, len = strlen(text);
    if (typing && len > room) /* the end of what is typed counts */
        text += len - room;
    fputs(label, stdout);
    table_bytes(stdout, (struct belfry_bytes){text, len < room ? len : room}, false);
    fputs("\033[K", stdout);
}

/* Keeps the rows on the screen, also after there are fewer of them. */
static void scroll_to(struct screen *screen, size_t first)
{
    size_t n = top_table_rows(&screen->top->data), last = n > screen->page ? n - screen->page : 0;
    screen->first = first < last ? first : last;
}

static void draw(struct screen *screen)
{
    struct winsize size = {0};
    const struct top *top = screen->top;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    struct top_view view = {.elapsed_ms = screen->elapsed_ms, .columns = size.ws_col, .lines = size.ws_row};
    view.before = screen->has_before ? &screen->before : NULL;
    view.sort = table_sort(top);
    view.hour = shown_hour(top);
    view.line_end = "\033[K\r\n";
    screen->page = top_screen_page(&top->data, &view);
    scroll_to(screen, screen->first);
    view.first = screen->first;
    fputs("\033[H", stdout);
    if (screen->mode == MODE_HELP)
        top_screen_write_help(stdout, &view);
    else
        top_screen_write(stdout, &top->data, &view);
    fputs("\033[J", stdout);
    draw_last_line(screen, &view);
}

static enum belfry_err refresh(struct screen *screen)
{
    struct top_numbers before = screen->top->data.numbers;
    bool had = screen->asked_ms > 0;
    int64_t now = now_ms();
    enum belfry_err err = ask(screen->top, screen->why);
    if (err == BELFRY_OK) {
        screen->why[0] = '\0';
        screen->before = before;
        screen->has_before = had;
        screen->elapsed_ms = (uint64_t)(now - screen->asked_ms);
    }
    if (err == BELFRY_OK || had)
        screen->asked_ms = now;
    return err;
}

static void ask_now(struct screen *screen)
{
    screen->asked_ms -= screen->interval_ms;
}

static void type(struct screen *screen, int key)
{
    size_t len = strlen(screen->typed);
    if (key == '\n' || key == '\r') {
        memcpy(screen->top->filter, screen->typed, sizeof(screen->typed));
        screen->mode = MODE_TABLE;
        screen->first = 0;
        ask_now(screen);
    } else if (key == TOP_KEY_ESCAPE) {
        screen->mode = MODE_TABLE;
    } else if ((key == 127 || key == 8) && len > 0) {
        screen->typed[len - 1] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && len + 1 < sizeof(screen->typed)) {
        screen->typed[len] = (char)key;
        screen->typed[len + 1] = '\0';
    }
}

static void scroll(struct screen *screen, int key)
{
    size_t first = screen->first, page = screen->page > 1 ? screen->page - 1 : 1; /* one row stays in sight */
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        first -= first > 0;
        break;
    case TOP_KEY_DOWN:
    case 'j':
        first++;
        break;
    case TOP_KEY_PAGE_UP:
    case 'b':
        first = first > page ? first - page : 0;
        break;
    case TOP_KEY_PAGE_DOWN:
    case ' ':
        first += page;
        break;
    case TOP_KEY_HOME:
        first = 0;
        break;
    case TOP_KEY_END:
        first = top_table_rows(&screen->top->data);
        break;
    default:
        break;
    }
    scroll_to(screen, first);
}

static size_t next_word(const char *const *words, size_t at)
{
    return words[at + 1] != NULL ? at + 1 : 0;
}

/* Another table: it is asked for, and shown from its first row on. */
static void change_table(struct screen *screen, int key)
{
    struct top *top = screen->top;
    if (key == 's' && top->clients)
        top->client_sort = next_word(client_sorts, top->client_sort);
    else if (key == 's')
        top->watcher_sort = next_word(watcher_sorts, top->watcher_sort);
    else if (key == 'g')
        top->group = next_word(groups, top->group);
    else {
        top->clients = !top->clients;
        top->filter[0] = '\0'; /* it was about the other table */
    }
    screen->first = 0;
    ask_now(screen);
}

static void press(struct screen *screen, int key)
{
    if (screen->mode == MODE_TYPING) {
        type(screen, key);
    } else if (screen->mode == MODE_HELP) {
        screen->mode = MODE_TABLE;
    } else if (key == 'q') {
        screen->over = true;
    } else if (key == '?') {
        screen->mode = MODE_HELP;
    } else if (key == 'h') {
        screen->top->hour = !screen->top->hour;
        ask_now(screen);
    } else if (key == '/') {
        screen->mode = MODE_TYPING;
        screen->typed[0] = '\0';
    } else if (key == 's' || key == 'c' || (key == 'g' && !screen->top->clients)) {
        change_table(screen, key);
    } else {
        scroll(screen, key);
    }
}

static void read_keys(struct screen *screen)
{
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
    if (n == 0)
        screen->over = true; /* the terminal is gone */
    for (size_t at = 0, used; n > 0 && at < (size_t)n; at += used)
        press(screen, top_key_read(keys + at, (size_t)n - at, &used));
}

static void wait_for_key(struct screen *screen)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t left = screen->asked_ms + screen->interval_ms - now_ms();
    if (poll(&keys, 1, left > 0 ? (int)left : 0) > 0)
        read_keys(screen);
}

static enum exit_code run_live(struct top *top, int64_t interval_ms)
{
    struct screen screen = {.top = top, .interval_ms = interval_ms};
    enum belfry_err err = refresh(&screen); /* before the terminal is taken: a wrong address is told on a plain line */
    if (err != BELFRY_OK)
        return report_admin(err, screen.why);
    screen.asked_ms = now_ms();
    if (!terminal_take())
        return report_errno("the terminal");
    while (!screen.over) {
        draw(&screen);
        if (out_flush() != OUT_OPEN)
            break;
        wait_for_key(&screen);
        if (!screen.over && screen.mode != MODE_TYPING && now_ms() >= screen.asked_ms + screen.interval_ms)
            (void)refresh(&screen); /* the reason is on the screen */
    }
    terminal_restore();
    return EXIT_DONE;
}

/* ---- the command ---- */

/* The number of the word in the list; false: it is none of them. */
static bool find_word(const char *const *words, const char *word, size_t *out)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcasecmp(words[i], word) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* What the flags say about the table. False: the sentence in why says what is wrong. */
static bool choose_table(const struct flags *flags, struct top *top, char why[FLAGS_WHY])
{
    const char *sort = flags->value[FLAG_SORT], *group = flags->value[FLAG_GROUP], *filter = flags->value[FLAG_FILTER];
    int64_t most = flags_on(flags, FLAG_CLIENTS) ? CLIENTS_MAX : WATCHERS_MAX;
    top->clients = flags_on(flags, FLAG_CLIENTS);
    top->hour = flags_on(flags, FLAG_HOUR);
    top->limit = flags_number(flags, FLAG_LIMIT);
    if (top->limit < 1 || top->limit > most)
        snprintf(why, FLAGS_WHY, "--limit: from 1 to %lld", (long long)most);
    else if (top->clients && group != NULL)
        snprintf(why, FLAGS_WHY, "--clients has no --group: it is for watchers");
    else if (filter != NULL && strlen(filter) >= FILTER)
        snprintf(why, FLAGS_WHY, "--filter: at most 255 bytes");
    else if (sort != NULL && top->clients && !find_word(client_sorts, sort, &top->client_sort))
        snprintf(why, FLAGS_WHY, "--sort %s: with --clients it is cpu, memory, calls or connections", sort);
    else if (sort != NULL && !top->clients && !find_word(watcher_sorts, sort, &top->watcher_sort))
        snprintf(why, FLAGS_WHY, "--sort %s: needs --clients; for watchers it is lag, sent or age", sort);
    else {
        if (group != NULL)
            (void)find_word(groups, group, &top->group); /* the table of flags knows the same words */
        snprintf(top->filter, sizeof(top->filter), "%s", filter != NULL ? filter : "");
        return true;
    }
    return false;
}

enum exit_code cmd_top(const struct flags *flags)
{
    struct top top = {.admin = flags->value[FLAG_ADMIN], .timeout_ms = (int)flags_ms(flags, FLAG_COMMAND_TIMEOUT)};
    char why[FLAGS_WHY];
    enum form form;
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &form, why) != BELFRY_OK ||
        form_refuse_etcds(form, "top", why) != BELFRY_OK)
        return report_usage(why);
    if (!choose_table(flags, &top, why))
        return report_usage(why);
    int64_t interval = flags_ms(flags, FLAG_INTERVAL);
    bool live =
        !flags_on(flags, FLAG_ONCE) && form == FORM_TABLE && isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
    enum exit_code code =
        live ? run_live(&top, interval > INTERVAL_MS_MIN ? interval : INTERVAL_MS_MIN) : run_once(&top, form);
    forget(&top);
    return code;
}
