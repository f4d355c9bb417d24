/* fuzz/review_answer.c: any bytes as the answer to a TokenReview and to a SubjectAccessReview. A user that is read can
 * be asked about: the question is JSON, its spec has the user's name, and it has no more members than it should. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/rights/review_text.h"
#include "json/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_question(const struct review_user *user)
{
    const struct review_subject subject = {.verb = {"list", 4}, .resource = {"pods", 4}};
    struct belfry_kube_document document = {0};
    struct belfry_buf question;
    belfry_buf_init(&question);
    check(review_access_write(belfry_buf_bytes(&user->spec), &subject, &question) == BELFRY_OK);
    struct belfry_bytes bytes = belfry_buf_bytes(&question);
    check(belfry_kube_document_read(&bytes, 1, &document) == BELFRY_OK);
    yyjson_val *spec = yyjson_obj_get(document.root, "spec"), *name = yyjson_obj_get(spec, "user");
    check(yyjson_is_str(name) && belfry_bytes_equal(belfry_kube_document_bytes(name), belfry_buf_bytes(&user->name)));
    check(yyjson_obj_size(document.root) == 3 && yyjson_obj_size(spec) <= 5);
    check(yyjson_is_obj(yyjson_obj_get(spec, "resourceAttributes")));
    belfry_kube_document_fini(&document);
    belfry_buf_fini(&question);
}

static void check_sentence(struct belfry_bytes text)
{
    char sentence[REVIEW_SENTENCE_MAX];
    const struct review_subject subject = {.verb = text, .resource = text, .name = text, .namespace = text};
    review_sentence(text, &subject, text, sentence);
    check(strlen(sentence) < sizeof(sentence));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes answer = belfry_bytes_of(data, size);
    struct review_user user = {0};
    struct belfry_buf reason;
    enum review_says says;
    belfry_buf_init(&reason);
    check(review_token_read(answer, &user, &says) == BELFRY_OK);
    check((says == REVIEW_YES) == (belfry_buf_len(&user.name) > 0));
    if (says == REVIEW_YES)
        check_question(&user);
    check(review_access_read(answer, &reason, &says) == BELFRY_OK);
    check(says == REVIEW_NO || belfry_buf_len(&reason) == 0);
    check_sentence(answer);
    belfry_buf_fini(&user.spec);
    belfry_buf_fini(&user.name);
    belfry_buf_fini(&reason);
    return 0;
}
