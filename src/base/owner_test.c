/* src/base/owner_test.c */
#include "base/owner.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct session {
    int n;
    BELFRY_OWNER_SESSION;
};

struct object {
    int n;
    BELFRY_OWNER;
};

#ifdef BELFRY_OWNER_CHECKS

static bool is_mine(const struct object *object)
{
    return belfry_owner_holds(&object->checked_owner);
}

static void on_another_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Does `fn`, on another thread, end its process by an assertion? */
static bool aborts(void *(*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        on_another_thread(fn, arg);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void *check_it(void *object)
{
    BELFRY_OWNER_CHECK((struct object *)object);
    return NULL;
}

static void *enter_it(void *session)
{
    BELFRY_OWNER_ENTER((struct session *)session);
    return NULL;
}

static void an_object_is_its_makers(void **state)
{
    (void)state;
    struct object object;
    BELFRY_OWNER_INIT(&object);
    BELFRY_OWNER_CHECK(&object);
    assert_true(aborts(check_it, &object));
    BELFRY_OWNER_CHECK(&object);
}

static void an_object_that_was_passed_is_the_next_threads(void **state)
{
    (void)state;
    struct object object;
    BELFRY_OWNER_INIT(&object);
    BELFRY_OWNER_PASS(&object);
    assert_false(aborts(check_it, &object));
    on_another_thread(check_it, &object);
    assert_false(is_mine(&object));
}

struct made {
    struct session *session;
    struct object object;
};

static void *make_in_session(void *arg)
{
    struct made *made = arg;
    BELFRY_OWNER_ENTER(made->session);
    BELFRY_OWNER_INIT(&made->object);
    return NULL;
}

static void what_is_made_in_a_session_is_the_sessions(void **state)
{
    (void)state;
    struct session session = {0};
    struct made made = {.session = &session};
    on_another_thread(make_in_session, &made);
    assert_true(is_mine(&made.object));
    {
        BELFRY_OWNER_ENTER(&session);
        assert_true(is_mine(&made.object));
        assert_true(aborts(check_it, &made.object));
    }
    assert_false(aborts(check_it, &made.object));
}

static void a_call_from_a_callback_leaves_the_outer_session_as_it_was(void **state)
{
    (void)state;
    struct session session = {0}, other = {0};
    struct object of_session, of_other, of_thread;
    struct belfry_owner_entry first = belfry_owner_enter(&session.checked_session);
    struct belfry_owner_entry second = belfry_owner_enter(&other.checked_session);
    struct belfry_owner_entry third = belfry_owner_enter(&session.checked_session);
    belfry_owner_leave(&third);
    BELFRY_OWNER_INIT(&of_other);
    belfry_owner_leave(&second);
    BELFRY_OWNER_INIT(&of_session);
    assert_true(aborts(check_it, &of_session));
    assert_false(aborts(check_it, &of_other));
    belfry_owner_leave(&first);
    BELFRY_OWNER_INIT(&of_thread);
    assert_false(aborts(check_it, &of_session));
    assert_true(aborts(check_it, &of_thread));
}

static void a_session_has_one_thread_at_a_time(void **state)
{
    (void)state;
    struct session session = {0};
    {
        BELFRY_OWNER_ENTER(&session);
        assert_true(aborts(enter_it, &session));
    }
    assert_false(aborts(enter_it, &session));
}

#else

static void a_release_has_no_field(void **state)
{
    (void)state;
    struct object object = {.n = 1};
    struct session session = {.n = 1};
    assert_int_equal(sizeof(object), sizeof(int));
    assert_int_equal(sizeof(session), sizeof(int));
    BELFRY_OWNER_INIT(&object);
    BELFRY_OWNER_PASS(&object);
    BELFRY_OWNER_CHECK(&object);
    BELFRY_OWNER_ENTER(&session);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef BELFRY_OWNER_CHECKS
        cmocka_unit_test(an_object_is_its_makers),
        cmocka_unit_test(an_object_that_was_passed_is_the_next_threads),
        cmocka_unit_test(what_is_made_in_a_session_is_the_sessions),
        cmocka_unit_test(a_call_from_a_callback_leaves_the_outer_session_as_it_was),
        cmocka_unit_test(a_session_has_one_thread_at_a_time),
#else
        cmocka_unit_test(a_release_has_no_field),
#endif
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
