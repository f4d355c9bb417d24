# One set of warnings for every target. They become errors in CI (BELFRY_WERROR), never on a user's machine.
add_compile_options(
    -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wwrite-strings -Wformat=2 -Wcast-qual
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<C_COMPILER_ID:Clang>>:-Wthread-safety>)
if(BELFRY_WERROR)
    add_compile_options(-Werror)
endif()
