# What the compiler and the linker add against a fault in memory; tools/hardening looks at the result. Sanitizers find more,
# and are hindered by it.
if(BELFRY_SANITIZE)
    return()
endif()
include(CheckCCompilerFlag)
add_compile_options(-fstack-protector-strong)
check_c_compiler_flag(-fcf-protection=full BELFRY_HAS_CF_PROTECTION) # x86: jumps and returns go where they should
if(BELFRY_HAS_CF_PROTECTION)
    add_compile_options(-fcf-protection=full)
endif()
check_c_compiler_flag(-mbranch-protection=standard BELFRY_HAS_BRANCH_PROTECTION) # the same on arm64
if(BELFRY_HAS_BRANCH_PROTECTION)
    add_compile_options(-mbranch-protection=standard)
endif()
# Copies into buffers of known size are checked. It needs an optimizing build.
add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
# Programs at a random address; tables of pointers are read-only before main() begins.
include(CheckPIESupported)
check_pie_supported(LANGUAGES ${languages})
if(BELFRY_STATIC)
    set(CMAKE_C_LINK_OPTIONS_PIE -fPIE -static-pie)
endif()
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
