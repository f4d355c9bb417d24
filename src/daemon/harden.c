/* src/daemon/harden.c */
#include "daemon/harden.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitizer.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define OWN_ABI AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_ABI AUDIT_ARCH_AARCH64
#endif

#ifndef PR_SET_MDWE /* Linux 6.3 */
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

/* Not every architecture has all of them, and not every kernel's headers. */
static const long refused[] = {
    /* programs and other processes */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_process_madvise
    SYS_process_madvise,
#endif
    /* file systems and namespaces */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_swapon, SYS_swapoff, SYS_quotactl,
    SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_mknodat, SYS_acct,
#ifdef SYS_mknod
    SYS_mknod,
#endif
#ifdef SYS_open_tree
    SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
    /* the kernel: code, clocks, names, keys */
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_bpf, SYS_perf_event_open,
    SYS_userfaultfd, SYS_syslog, SYS_personality, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    SYS_sethostname, SYS_setdomainname, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_lookup_dcookie, SYS_vhangup,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_modify_ldt
    SYS_modify_ldt, SYS_iopl, SYS_ioperm,
#endif
    /* a second way to make any other call */
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}; /* netlink: the addresses of interfaces */

#define N_REFUSED  (sizeof(refused) / sizeof(refused[0]))
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

bool harden_is_possible(void)
{
    return !BELFRY_HAS_SANITIZER;
}

bool harden_is_refused(long number)
{
    for (size_t i = 0; i < N_REFUSED; i++) {
        if (refused[i] == number)
            return true;
    }
    return false;
}

#ifdef OWN_ABI

#define X32_BIT 0x40000000u /* of a number: x86's third ABI, which has AUDIT_ARCH_X86_64, too */

#define LOAD(field)          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what)         BPF_STMT(BPF_RET | BPF_K, what)
#define IF_EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define IF_BITS(k, yes, no)  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)

struct program {
    size_t n;
    struct sock_filter steps[16 + 2 * N_REFUSED + 2 * N_FAMILIES];
};

static void program_add(struct program *program, struct sock_filter step)
{
    program->steps[program->n++] = step;
}

/* Every step that compares is followed by what happens when it fits. */
static void program_write(struct program *program)
{
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
    program_add(program, (struct sock_filter)LOAD(arch));
    program_add(program, (struct sock_filter)IF_EQUAL(OWN_ABI, 1, 0));
    program_add(program, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
    program_add(program, (struct sock_filter)LOAD(nr));
    program_add(program, (struct sock_filter)IF_BITS(X32_BIT, 0, 1));
    program_add(program, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
    for (size_t i = 0; i < N_REFUSED; i++) {
        program_add(program, (struct sock_filter)IF_EQUAL((uint32_t)refused[i], 0, 1));
        program_add(program, (struct sock_filter)RETURN(refuse));
    }
    program_add(program, (struct sock_filter)IF_EQUAL(SYS_socket, 1, 0));
    program_add(program, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
    program_add(program, (struct sock_filter)LOAD(args[0])); /* its lower half: both ABIs are little-endian */
    for (size_t i = 0; i < N_FAMILIES; i++) {
        program_add(program, (struct sock_filter)IF_EQUAL((uint32_t)families[i], 0, 1));
        program_add(program, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
    }
    program_add(program, (struct sock_filter)RETURN(refuse));
}

static bool filter_calls(void)
{
    struct program program = {0};
    program_write(&program);
    struct sock_fprog prog = {.len = (unsigned short)program.n, .filter = program.steps};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) == 0;
}

#else

static bool filter_calls(void)
{
    return false;
}

#endif

void harden_self(struct harden_report *out)
{
    *out = (struct harden_report){0};
    if (!harden_is_possible())
        return;
    out->no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    out->not_dumpable = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
    out->no_exec_gain = prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0;
    out->filter = out->no_new_privs && filter_calls(); /* without it only root may */
}
