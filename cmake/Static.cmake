# BELFRY_STATIC: belfryd and belfryctl without a shared library, at a random address all the same. See decision 0063.
# The linker warns of each function of the C library that would load modules at run time; here that is an error.
set(wrapped "")
foreach(name dlopen getaddrinfo getnameinfo gethostbyname getpwuid_r getservbyname getservbyport_r)
    list(APPEND wrapped -Wl,--wrap=${name})
endforeach()
foreach(program belfryd belfryctl)
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src/main/no_modules.c)
    target_link_options(${program} PRIVATE -Wl,--gc-sections -Wl,--fatal-warnings ${wrapped}
                        -Wl,-Map=${CMAKE_BINARY_DIR}/${program}.map)
endforeach()
