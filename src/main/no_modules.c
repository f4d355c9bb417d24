/* src/main/no_modules.c
 *
 * Functions of the C library that load modules when they are called, each replaced by one that fails.
 *
 * Part of static programs only (cmake/Static.cmake). There glibc's own versions would load NSS modules and other shared
 * objects of the machine that the program runs on. These work with one version of glibc only, and may crash with
 * another. Belfry calls none of these functions: names of hosts are resolved by c-ares. libuv, c-ares and OpenSSL
 * contain calls to them that Belfry never reaches, but for dlopen(): OpenSSL calls it when its configuration names a
 * module, and goes on without that module.
 *
 * The linker takes __wrap_dlopen() for each call of dlopen() outside of glibc (--wrap), and stops at a function of this
 * kind that is not wrapped: look whether Belfry reaches it, then add it here and in cmake/Static.cmake.
 *
 * Thread: any.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pwd.h>
#include <stddef.h>

void *__wrap_dlopen(const char *file, int mode);
int __wrap_getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                       struct addrinfo **restrict out);
int __wrap_getnameinfo(const struct sockaddr *restrict address, socklen_t address_len, char *restrict host,
                       socklen_t host_len, char *restrict service, socklen_t service_len, int flags);
struct hostent *__wrap_gethostbyname(const char *name);
int __wrap_getpwuid_r(uid_t uid, struct passwd *restrict entry, char *restrict buf, size_t buf_len,
                      struct passwd **restrict out);
struct servent *__wrap_getservbyname(const char *name, const char *protocol);
int __wrap_getservbyport_r(int port, const char *restrict protocol, struct servent *restrict entry, char *restrict buf,
                           size_t buf_len, struct servent **restrict out);

void *__wrap_dlopen(const char *file, int mode)
{
    (void)file, (void)mode;
    return NULL;
}

int __wrap_getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                       struct addrinfo **restrict out)
{
    (void)name, (void)service, (void)hints, (void)out;
    return EAI_FAIL;
}

int __wrap_getnameinfo(const struct sockaddr *restrict address, socklen_t address_len, char *restrict host,
                       socklen_t host_len, char *restrict service, socklen_t service_len, int flags)
{
    (void)address, (void)address_len, (void)host, (void)host_len, (void)service, (void)service_len, (void)flags;
    return EAI_FAIL;
}

struct hostent *__wrap_gethostbyname(const char *name)
{
    (void)name;
    return NULL;
}

int __wrap_getpwuid_r(uid_t uid, struct passwd *restrict entry, char *restrict buf, size_t buf_len,
                      struct passwd **restrict out)
{
    (void)uid, (void)entry, (void)buf, (void)buf_len;
    *out = NULL;
    return ENOSYS;
}

struct servent *__wrap_getservbyname(const char *name, const char *protocol)
{
    (void)name, (void)protocol;
    return NULL;
}

int __wrap_getservbyport_r(int port, const char *restrict protocol, struct servent *restrict entry, char *restrict buf,
                           size_t buf_len, struct servent **restrict out)
{
    (void)port, (void)protocol, (void)entry, (void)buf, (void)buf_len;
    *out = NULL;
    return ENOSYS;
}
