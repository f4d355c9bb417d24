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
#include "cli/top/top_screen.h"

#define INTERVAL_MS_MIN 200
#define FILTER          256

static const char *const sorts[] = {"lag", "sent", "age"};
static const char *const groups[] = {"", "range", "peer", "state"};

/* What is asked for, and what came last. */
struct top {
    const char *admin;
    int timeout_ms;
    int64_t limit;
    size_t sort, group; /* in the words above */
    char filter[FILTER];
    struct http_page numbers, watchers;
    struct top_data data;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- asking ---- */

static void watchers_path(const struct top *top, char *path, size_t len)
{
    size_t at =
        (size_t)snprintf(path, len, "/debug/watchers?sort=%s&limit=%lld", sorts[top->sort], (long long)top->limit);
    if (top->group > 0)
        at += (size_t)snprintf(path + at, len - at, "&group=%s", groups[top->group]);
    if (top->filter[0] != '\0')
        at += (size_t)snprintf(path + at, len - at, "&filter=");
    for (const char *c = top->filter; *c != '\0' && at + 4 < len; c++)
        at += (size_t)snprintf(path + at, len - at, isalnum((unsigned char)*c) ? "%c" : "%%%02X", (unsigned char)*c);
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
    http_page_fini(&top->watchers);
}

/* On success what was there before is forgotten; on failure it is kept, and the reason is in why. */
static enum belfry_err ask(struct top *top, char why[HTTP_GET_WHY])
{
    struct http_page numbers = {0}, watchers = {0};
    struct top_data data = {0};
    char path[FILTER * 3 + 128];
    watchers_path(top, path, sizeof(path));
    enum belfry_err err = ask_page(top, "/debug/numbers", &numbers, why);
    if (err == BELFRY_OK)
        err = ask_page(top, path, &watchers, why);
    if (err == BELFRY_OK) {
        snprintf(why, HTTP_GET_WHY, "%.128s: what answers there is no belfryd", top->admin);
        err = top_data_read(numbers.body, numbers.len, watchers.body, watchers.len, &data);
    }
    if (err != BELFRY_OK) {
        top_data_fini(&data);
        http_page_fini(&numbers);
        http_page_fini(&watchers);
        return err;
    }
    forget(top);
    top->numbers = numbers;
    top->watchers = watchers;
    top->data = data;
    return BELFRY_OK;
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
        print_document("watchers", &top->watchers);
        puts("}");
    } else {
        struct top_view view = {.right = "", .line_end = "\n"};
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

struct screen {
    struct top *top;
    int64_t interval_ms, asked_ms;
    struct top_numbers before; /* of the frame before; its texts are not used */
    bool has_before;
    uint64_t elapsed_ms;
    bool typing; /* a filter */
    char typed[FILTER];
    char why[HTTP_GET_WHY]; /* why the last question had no answer; "" */
    bool over;
};

static void draw(const struct screen *screen)
{
    struct winsize size = {0};
    char right[FILTER + 96];
    const struct top *top = screen->top;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    snprintf(right, sizeof(right), "%gs  s:sort(%s) g:group(%s) /:filter(%s) q", (double)screen->interval_ms / 1000,
             sorts[top->sort], top->group == 0 ? "no" : groups[top->group], top->filter);
    struct top_view view = {.elapsed_ms = screen->elapsed_ms, .columns = size.ws_col, .lines = size.ws_row};
    view.before = screen->has_before ? &screen->before : NULL;
    view.right = right;
    view.line_end = "\033[K\r\n";
    fputs("\033[H", stdout);
    top_screen_write(stdout, &top->data, &view);
    fputs("\033[J", stdout);
    if (screen->typing || screen->why[0] != '\0') {
        printf("\033[%d;1H", size.ws_row > 0 ? size.ws_row : 24);
        const char *text = screen->typing ? screen->typed : screen->why;
        fputs(screen->typing ? "filter: " : "! ", stdout);
        table_bytes(stdout, (struct belfry_bytes){text, strlen(text)}, false);
        fputs("\033[K", stdout);
    }
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

static void type(struct screen *screen, char key)
{
    size_t len = strlen(screen->typed);
    if (key == '\n' || key == '\r') {
        memcpy(screen->top->filter, screen->typed, sizeof(screen->typed));
        screen->typing = false;
        screen->asked_ms -= screen->interval_ms; /* ask now */
    } else if (key == 27) {
        screen->typing = false;
    } else if ((key == 127 || key == 8) && len > 0) {
        screen->typed[len - 1] = '\0';
    } else if ((unsigned char)key >= ' ' && key != 127 && len + 1 < sizeof(screen->typed)) {
        screen->typed[len] = key;
        screen->typed[len + 1] = '\0';
    }
}

static void press(struct screen *screen, char key)
{
    struct top *top = screen->top;
    if (screen->typing) {
        type(screen, key);
        return;
    }
    switch (key) {
    case 's':
        top->sort = (top->sort + 1) % (sizeof(sorts) / sizeof(sorts[0]));
        break;
    case 'g':
        top->group = (top->group + 1) % (sizeof(groups) / sizeof(groups[0]));
        break;
    case '/':
        screen->typing = true;
        memcpy(screen->typed, top->filter, sizeof(screen->typed));
        return;
    case 'q':
        screen->over = true;
        return;
    default:
        return;
    }
    screen->asked_ms -= screen->interval_ms;
}

static void read_keys(struct screen *screen)
{
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
    if (n == 0)
        screen->over = true; /* the terminal is gone */
    for (ssize_t i = 0; i < n; i++)
        press(screen, keys[i]);
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
        if (!screen.over && !screen.typing && now_ms() >= screen.asked_ms + screen.interval_ms)
            (void)refresh(&screen); /* the reason is on the screen */
    }
    terminal_restore();
    return EXIT_DONE;
}

/* ---- the command ---- */

static size_t word_of(const char *const *words, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (word != NULL && strcasecmp(words[i], word) == 0)
            return i;
    }
    return 0;
}

enum exit_code cmd_top(const struct flags *flags)
{
    struct top top = {.admin = flags->value[FLAG_ADMIN], .limit = flags_number(flags, FLAG_LIMIT)};
    const char *filter = flags->value[FLAG_FILTER] != NULL ? flags->value[FLAG_FILTER] : "";
    char why[FLAGS_WHY];
    enum form form;
    if (form_choose(flags, isatty(STDOUT_FILENO) == 1, &form, why) != BELFRY_OK)
        return report_usage(why);
    if (form != FORM_TABLE && form != FORM_LINES)
        return report_usage("top has no -w: use --output json");
    if (top.limit < 1 || top.limit > 10000)
        return report_usage("--limit: from 1 to 10000");
    if (strlen(filter) >= FILTER)
        return report_usage("--filter: at most 255 bytes");
    memcpy(top.filter, filter, strlen(filter) + 1);
    top.timeout_ms = (int)flags_ms(flags, FLAG_COMMAND_TIMEOUT);
    top.sort = word_of(sorts, sizeof(sorts) / sizeof(sorts[0]), flags->value[FLAG_SORT]);
    top.group = word_of(groups, sizeof(groups) / sizeof(groups[0]), flags->value[FLAG_GROUP]);
    int64_t interval = flags_ms(flags, FLAG_INTERVAL);
    bool live =
        !flags_on(flags, FLAG_ONCE) && form == FORM_TABLE && isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1;
    enum exit_code code =
        live ? run_live(&top, interval > INTERVAL_MS_MIN ? interval : INTERVAL_MS_MIN) : run_once(&top, form);
    forget(&top);
    return code;
}
