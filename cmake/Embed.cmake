# Writes a header with the bytes of files: an array page_FILE_EXT for each.
#   cmake -DFILES=a.html,b.css -DOUT=page_data.h -P Embed.cmake
set(text "/* Made by cmake/Embed.cmake. */\n#include <stdint.h>\n")
string(REPLACE "," ";" FILES "${FILES}")
foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER "page_${name}" name)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(................................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const uint8_t ${name}[] = {\n${bytes}\n};\n")
endforeach()
file(WRITE ${OUT} "${text}")
