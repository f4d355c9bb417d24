/* src/serve/rights/review_text.c */
#include "serve/rights/review_text.h"

#include <stdio.h>

#include "base/utf8.h"
#include "json/document.h"
#include "json/escape.h"
#include "json/json.h"
#include "json/shallow.h"

#define ANONYMOUS       "system:anonymous"
#define UNAUTHENTICATED "system:unauthenticated"

/* ---- questions ---- */

bool review_token_is_plain(struct belfry_bytes token)
{
    for (size_t i = 0; i < token.len; i++) {
        if (token.data[i] <= ' ' || token.data[i] > '~')
            return false;
    }
    return token.len > 0 && token.len <= REVIEW_TOKEN_MAX;
}

enum belfry_err review_token_write(struct belfry_bytes token, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "apiVersion", "authentication.k8s.io/v1");
    belfry_json_str(&json, "kind", "TokenReview");
    belfry_json_open(&json, "spec", '{');
    belfry_json_text(&json, "token", token);
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

static bool is_text(struct belfry_bytes text)
{
    return text.len == 0 || belfry_utf8_valid(text.data, text.len);
}

static bool subject_is_text(const struct review_subject *subject)
{
    return is_text(subject->verb) && is_text(subject->group) && is_text(subject->version) &&
           is_text(subject->resource) && is_text(subject->subresource) && is_text(subject->namespace) &&
           is_text(subject->name) && is_text(subject->label_selector) && is_text(subject->field_selector);
}

static void write_selector(struct belfry_json *json, const char *name, struct belfry_bytes selector)
{
    if (selector.len == 0)
        return;
    belfry_json_open(json, name, '{');
    belfry_json_text(json, "rawSelector", selector);
    belfry_json_close(json, '}');
}

static enum belfry_err write_attributes(const struct review_subject *subject, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_text(&json, "verb", subject->verb);
    belfry_json_text(&json, "group", subject->group);
    belfry_json_text(&json, "version", subject->version);
    belfry_json_text(&json, "resource", subject->resource);
    belfry_json_text(&json, "subresource", subject->subresource);
    belfry_json_text(&json, "namespace", subject->namespace);
    belfry_json_text(&json, "name", subject->name);
    write_selector(&json, "labelSelector", subject->label_selector);
    write_selector(&json, "fieldSelector", subject->field_selector);
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

static enum belfry_err append_str(struct belfry_buf *out, const char *text)
{
    return belfry_buf_append(out, text, strlen(text));
}

enum belfry_err review_access_write(struct belfry_bytes spec, const struct review_subject *subject,
                                    struct belfry_buf *out)
{
    if (!subject_is_text(subject))
        return BELFRY_ERR_INVALID;
    enum belfry_err err =
        append_str(out, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
                        "\"spec\":{");
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, spec.data, spec.len);
    if (err == BELFRY_OK)
        err = append_str(out, ",\"resourceAttributes\":");
    if (err == BELFRY_OK)
        err = write_attributes(subject, out);
    return err == BELFRY_OK ? append_str(out, "}}") : err;
}

/* ---- answers ---- */

/* The value of the first member of that name, raw; empty: there is none. */
static struct belfry_bytes raw_member(struct belfry_bytes object, const char *name)
{
    struct belfry_shallow walk = belfry_shallow_walk(object);
    struct belfry_shallow_member member;
    while (belfry_shallow_next(&walk, &member)) {
        if (belfry_escape_is(member.name, name))
            return member.value;
    }
    return (struct belfry_bytes){0};
}

static bool is_list_of_strings(yyjson_val *list)
{
    size_t i, n;
    yyjson_val *value;
    if (!yyjson_is_arr(list))
        return false;
    yyjson_arr_foreach(list, i, n, value)
    {
        if (!yyjson_is_str(value))
            return false;
    }
    return true;
}

static bool is_lists_by_name(yyjson_val *object)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(object))
        return false;
    yyjson_obj_foreach(object, i, n, key, value)
    {
        if (!is_list_of_strings(value) && !yyjson_is_null(value))
            return false;
    }
    return true;
}

static bool is_nothing(yyjson_val *value)
{
    return value == NULL || yyjson_is_null(value);
}

/* Are all members of the user what Kubernetes says they are? */
static bool user_is_sound(yyjson_val *user)
{
    yyjson_val *name = yyjson_obj_get(user, "username"), *uid = yyjson_obj_get(user, "uid");
    yyjson_val *groups = yyjson_obj_get(user, "groups"), *extra = yyjson_obj_get(user, "extra");
    return yyjson_is_str(name) && yyjson_get_len(name) > 0 && (is_nothing(uid) || yyjson_is_str(uid)) &&
           (is_nothing(groups) || is_list_of_strings(groups)) && (is_nothing(extra) || is_lists_by_name(extra));
}

static bool user_is_anonymous(yyjson_val *user)
{
    size_t i, n;
    yyjson_val *value, *groups = yyjson_obj_get(user, "groups");
    if (yyjson_equals_str(yyjson_obj_get(user, "username"), ANONYMOUS))
        return true;
    yyjson_arr_foreach(groups, i, n, value)
    {
        if (yyjson_equals_str(value, UNAUTHENTICATED))
            return true;
    }
    return false;
}

/* Appends "name":VALUE, the value as it is; nothing if there is none. */
static enum belfry_err copy_member(struct belfry_bytes value, const char *name, struct belfry_buf *out)
{
    if (belfry_shallow_is_nothing(value))
        return BELFRY_OK;
    enum belfry_err err = append_str(out, belfry_buf_len(out) == 0 ? "\"" : ",\"");
    if (err == BELFRY_OK)
        err = append_str(out, name);
    if (err == BELFRY_OK)
        err = append_str(out, "\":");
    return err == BELFRY_OK ? belfry_buf_append(out, value.data, value.len) : err;
}

static enum belfry_err copy_user(struct belfry_bytes raw, yyjson_val *user, struct review_user *out)
{
    struct belfry_bytes name = belfry_kube_document_bytes(yyjson_obj_get(user, "username"));
    struct review_user copy = {0};
    enum belfry_err err = belfry_buf_append(&copy.name, name.data, name.len);
    if (err == BELFRY_OK)
        err = copy_member(raw_member(raw, "username"), "user", &copy.spec);
    if (err == BELFRY_OK)
        err = copy_member(raw_member(raw, "uid"), "uid", &copy.spec);
    if (err == BELFRY_OK)
        err = copy_member(raw_member(raw, "groups"), "groups", &copy.spec);
    if (err == BELFRY_OK)
        err = copy_member(raw_member(raw, "extra"), "extra", &copy.spec);
    if (err != BELFRY_OK) {
        belfry_buf_fini(&copy.name);
        belfry_buf_fini(&copy.spec);
        return err;
    }
    *out = copy;
    return BELFRY_OK;
}

static enum belfry_err read_token_status(struct belfry_bytes answer, yyjson_val *root, struct review_user *user,
                                         enum review_says *out)
{
    yyjson_val *status = yyjson_obj_get(root, "status"), *of = yyjson_obj_get(status, "user");
    if (!yyjson_equals_str(yyjson_obj_get(root, "kind"), "TokenReview") || !yyjson_is_obj(status))
        return BELFRY_OK;
    if (!yyjson_is_true(yyjson_obj_get(status, "authenticated"))) {
        *out = REVIEW_NO;
        return BELFRY_OK;
    }
    if (!user_is_sound(of))
        return BELFRY_OK;
    if (user_is_anonymous(of)) {
        *out = REVIEW_NO;
        return BELFRY_OK;
    }
    enum belfry_err err = copy_user(raw_member(raw_member(belfry_shallow_value(answer), "status"), "user"), of, user);
    if (err == BELFRY_OK)
        *out = REVIEW_YES;
    return err;
}

enum belfry_err review_token_read(struct belfry_bytes answer, struct review_user *user, enum review_says *out)
{
    struct belfry_kube_document document = {0};
    enum belfry_err err = belfry_kube_document_read(&answer, 1, &document);
    *out = REVIEW_UNREADABLE;
    if (err == BELFRY_OK)
        err = read_token_status(answer, document.root, user, out);
    belfry_kube_document_fini(&document);
    return err == BELFRY_ERR_INVALID ? BELFRY_OK : err;
}

static enum belfry_err read_access_status(yyjson_val *root, struct belfry_buf *reason, enum review_says *out)
{
    yyjson_val *status = yyjson_obj_get(root, "status"), *allowed = yyjson_obj_get(status, "allowed");
    bool is_answer = yyjson_equals_str(yyjson_obj_get(root, "kind"), "SubjectAccessReview") && yyjson_is_bool(allowed);
    if (!is_answer)
        return BELFRY_OK;
    bool is_denied = yyjson_is_true(yyjson_obj_get(status, "denied"));
    *out = yyjson_is_true(allowed) && !is_denied ? REVIEW_YES : REVIEW_NO;
    yyjson_val *why = yyjson_obj_get(status, "reason");
    if (*out == REVIEW_YES || !yyjson_is_str(why))
        return BELFRY_OK;
    struct belfry_bytes text = belfry_kube_document_bytes(why);
    return belfry_buf_append(reason, text.data, text.len);
}

enum belfry_err review_access_read(struct belfry_bytes answer, struct belfry_buf *reason, enum review_says *out)
{
    struct belfry_kube_document document = {0};
    enum belfry_err err = belfry_kube_document_read(&answer, 1, &document);
    *out = REVIEW_UNREADABLE;
    if (err == BELFRY_OK)
        err = read_access_status(document.root, reason, out);
    belfry_kube_document_fini(&document);
    return err == BELFRY_ERR_INVALID ? BELFRY_OK : err;
}

/* ---- the sentence ---- */

/* Text in a fixed room; what does not fit is dropped, from the first piece on that does not. */
struct sentence {
    char *out;
    size_t len;
    bool is_full;
};

static void say(struct sentence *sentence, const char *text, size_t len)
{
    sentence->is_full = sentence->is_full || len >= REVIEW_SENTENCE_MAX - sentence->len;
    if (sentence->is_full)
        return;
    memcpy(sentence->out + sentence->len, text, len);
    sentence->len += len;
}

static void say_str(struct sentence *sentence, const char *text)
{
    say(sentence, text, strlen(text));
}

/* One character, escaped as Go's %q does; then &, < and > as HTML wants them, as kube-apiserver does. */
static void say_character(struct sentence *sentence, const char *text, size_t len, bool is_known, uint32_t code)
{
    char escape[8];
    switch (text[0]) {
    case '&':
        say_str(sentence, "&amp;");
        return;
    case '<':
        say_str(sentence, "&lt;");
        return;
    case '>':
        say_str(sentence, "&gt;");
        return;
    case '"':
    case '\\':
        snprintf(escape, sizeof(escape), "\\%c", text[0]);
        say_str(sentence, escape);
        return;
    default:
        break;
    }
    if (is_known && !belfry_utf8_is_control(code)) {
        say(sentence, text, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)(unsigned char)text[i]);
        say_str(sentence, escape);
    }
}

static void say_text(struct sentence *sentence, struct belfry_bytes text)
{
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t code = 0;
        size_t known = belfry_utf8_next(text.data + at, text.len - at, &code);
        n = known == 0 ? 1 : known;
        say_character(sentence, text.data + at, n, known > 0, code);
    }
}

/* A text of upstream's: as it is, but for control characters. */
static void say_plainly(struct sentence *sentence, struct belfry_bytes text)
{
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t code = 0;
        n = belfry_utf8_next(text.data + at, text.len - at, &code);
        bool is_plain = n > 0 && !belfry_utf8_is_control(code);
        n = n == 0 ? 1 : n;
        say(sentence, is_plain ? text.data + at : "?", is_plain ? n : 1);
    }
}

static void say_quoted(struct sentence *sentence, struct belfry_bytes text)
{
    say_str(sentence, "\"");
    say_text(sentence, text);
    say_str(sentence, "\"");
}

/* "pods", "endpointslices.discovery.k8s.io", with a name: pods "p". */
static void say_what(struct sentence *sentence, const struct review_subject *subject)
{
    say_text(sentence, subject->resource);
    if (subject->group.len > 0) {
        say_str(sentence, ".");
        say_text(sentence, subject->group);
    }
    if (subject->name.len > 0) {
        say_str(sentence, " ");
        say_quoted(sentence, subject->name);
    }
}

void review_sentence(struct belfry_bytes user, const struct review_subject *subject, struct belfry_bytes reason,
                     char out[REVIEW_SENTENCE_MAX])
{
    struct sentence sentence = {.out = out};
    say_what(&sentence, subject);
    say_str(&sentence, " is forbidden: User ");
    say_quoted(&sentence, user);
    say_str(&sentence, " cannot ");
    say_text(&sentence, subject->verb);
    say_str(&sentence, " resource \"");
    say_text(&sentence, subject->resource);
    if (subject->subresource.len > 0) {
        say_str(&sentence, "/");
        say_text(&sentence, subject->subresource);
    }
    say_str(&sentence, "\" in API group ");
    say_quoted(&sentence, subject->group);
    if (subject->namespace.len > 0) {
        say_str(&sentence, " in the namespace ");
        say_quoted(&sentence, subject->namespace);
    } else {
        say_str(&sentence, " at the cluster scope");
    }
    if (reason.len > 0) {
        say_str(&sentence, ": ");
        say_plainly(&sentence, reason);
    }
    out[sentence.len] = '\0';
}
