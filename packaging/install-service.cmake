# Run by `cmake --install`: writes belfryd.service for the prefix that the installation was given, which may be another one
# than was configured, and puts the configuration where the service reads it. A configuration that is there already is kept:
# it is the operator's.
#
# Given by packaging/CMakeLists.txt: BELFRY_PACKAGING, BELFRY_UNIT_OUT, BELFRY_UNIT_DIR, CMAKE_INSTALL_SBINDIR,
# CMAKE_INSTALL_SYSCONFDIR.
include(GNUInstallDirs) # CMAKE_INSTALL_FULL_...: /etc for the prefix /usr, /etc/opt/NAME for /opt/NAME, PREFIX/etc for others

configure_file(${BELFRY_PACKAGING}/belfryd.service.in ${BELFRY_UNIT_OUT} @ONLY)
get_filename_component(unit_dir ${BELFRY_UNIT_DIR} ABSOLUTE BASE_DIR ${CMAKE_INSTALL_PREFIX})
file(INSTALL ${BELFRY_UNIT_OUT} DESTINATION ${unit_dir})

set(config_dir ${CMAKE_INSTALL_FULL_SYSCONFDIR}/belfry)
if(EXISTS $ENV{DESTDIR}${config_dir}/belfryd.yaml)
    message(STATUS "Kept: $ENV{DESTDIR}${config_dir}/belfryd.yaml")
else()
    file(INSTALL ${BELFRY_PACKAGING}/belfryd.yaml DESTINATION ${config_dir})
endif()
