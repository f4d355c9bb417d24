/* src/serve/rights/review_text.h
 *
 * review_text: the JSON of Kubernetes' reviews, and what an answer says.
 *
 *     TokenReview           whose token is this?                     a user: name, uid, groups, extra
 *     SubjectAccessReview   may this user do this?                   yes, or no and why
 *
 * The user is passed from the first answer to the second question as it is: the JSON of uid, groups and extra is copied
 * after its types were checked.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RIGHTS_REVIEW_TEXT_H
#define BELFRY_SERVE_RIGHTS_REVIEW_TEXT_H

#include "base/buf.h"
#include "base/err.h"
#include "serve/rights/review_subject.h"

#define REVIEW_TOKEN_PATH   "/apis/authentication.k8s.io/v1/tokenreviews"
#define REVIEW_ACCESS_PATH  "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#define REVIEW_TOKEN_MAX    (64 * 1024) /* bytes of a token; a longer one is nobody's */
#define REVIEW_SENTENCE_MAX 460         /* with NUL: it fits into the message of a Status */

/* May upstream be asked about such a token? 1 to REVIEW_TOKEN_MAX visible ASCII characters. */
bool review_token_is_plain(struct belfry_bytes token);

/* Appends the question. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err review_token_write(struct belfry_bytes token, struct belfry_buf *out);

/* What an answer says. UNREADABLE: it is no answer. */
enum review_says { REVIEW_YES, REVIEW_NO, REVIEW_UNREADABLE };

/* Both are empty at first; after REVIEW_YES the caller ends them with belfry_buf_fini(). */
struct review_user {
    struct belfry_buf spec; /* members of a SubjectAccessReview's spec: "user":"u","groups":["g"] */
    struct belfry_buf name; /* without escapes */
};

/* Reads the answer. NO: the token is nobody's, or an anonymous user's. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err review_token_read(struct belfry_bytes answer, struct review_user *user,
                                                   enum review_says *out);

/* Appends the question. Errors: BELFRY_ERR_INVALID (a text is not UTF-8, so it cannot be asked), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err review_access_write(struct belfry_bytes spec, const struct review_subject *subject,
                                                     struct belfry_buf *out);

/* Reads the answer. Appends upstream's reason for NO, which may be empty. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err review_access_read(struct belfry_bytes answer, struct belfry_buf *reason,
                                                    enum review_says *out);

/* Kubernetes' own sentence: `pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace
 * "x"`. A long one is cut. */
void review_sentence(struct belfry_bytes user, const struct review_subject *subject, struct belfry_bytes reason,
                     char out[REVIEW_SENTENCE_MAX]);

#endif
