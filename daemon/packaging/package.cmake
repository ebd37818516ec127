# The Debian package: `cmake --build build --target package` writes build/p2pw_VERSION_ARCH.deb. Man pages and completions
# are what the programs themselves say.
include(GNUInstallDirs)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(P2PW_PACKAGING ${CMAKE_SOURCE_DIR}/daemon/packaging)
set(generated ${CMAKE_BINARY_DIR}/packaging)
add_custom_command(
  OUTPUT ${generated}/p2pw.1 ${generated}/p2pwd.8
  COMMAND ${Python3_EXECUTABLE} -B ${P2PW_PACKAGING}/make_man.py $<TARGET_FILE:p2pw> $<TARGET_FILE:p2pwd> ${generated}
  DEPENDS p2pw p2pwd ${P2PW_PACKAGING}/make_man.py VERBATIM)
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(
    OUTPUT ${generated}/p2pw.${shell}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND $<TARGET_FILE:p2pw> completion ${shell} > ${generated}/p2pw.${shell}
    DEPENDS p2pw VERBATIM)
  list(APPEND completions ${generated}/p2pw.${shell})
endforeach()
add_custom_target(packaging ALL DEPENDS ${generated}/p2pw.1 ${generated}/p2pwd.8 ${completions})

install(TARGETS p2pw p2pwd RUNTIME DESTINATION bin)
install(FILES ${generated}/p2pw.1 DESTINATION share/man/man1)
install(FILES ${generated}/p2pwd.8 DESTINATION share/man/man8)
install(FILES ${generated}/p2pw.bash DESTINATION share/bash-completion/completions RENAME p2pw)
install(FILES ${generated}/p2pw.zsh DESTINATION share/zsh/vendor-completions RENAME _p2pw)
install(FILES ${generated}/p2pw.fish DESTINATION share/fish/vendor_completions.d RENAME p2pw.fish)
install(FILES ${P2PW_PACKAGING}/p2pwd.service DESTINATION lib/systemd/system)
install(FILES ${P2PW_PACKAGING}/p2pw.sysusers DESTINATION lib/sysusers.d RENAME p2pw.conf)
install(FILES ${P2PW_PACKAGING}/p2pw.tmpfiles DESTINATION lib/tmpfiles.d RENAME p2pw.conf)
install(FILES ${P2PW_PACKAGING}/p2pw.example.toml DESTINATION share/doc/p2pw/examples RENAME p2pw.toml)
install(FILES ${P2PW_PACKAGING}/p2pw.sysctl DESTINATION share/doc/p2pw/examples RENAME 60-p2pw.conf)
# The pages lie as in the sources, so that they find each other.
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_SOURCE_DIR}/SECURITY.md DESTINATION share/doc/p2pw)
install(FILES ${CMAKE_SOURCE_DIR}/daemon/HOTLOAD.md DESTINATION share/doc/p2pw/daemon)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/daemon/docs ${CMAKE_SOURCE_DIR}/daemon/monitoring DESTINATION share/doc/p2pw/daemon)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/p2pw RENAME copyright)
install(FILES ${CMAKE_SOURCE_DIR}/cli/docs/top.svg DESTINATION share/doc/p2pw/cli/docs)
install(FILES ${CMAKE_SOURCE_DIR}/cli/python/p2pw.py DESTINATION lib/python3/dist-packages)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/cli/python/examples/ DESTINATION share/doc/p2pw/examples/python)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME p2pw)
set(CPACK_PACKAGE_VENDOR p2pw)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "moves policy weights from one trainer to a fleet of nodes")
set(CPACK_PACKAGE_CONTACT "p2pw maintainers <maintainers@p2pw.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${P2PW_PACKAGING}/postinst ${P2PW_PACKAGING}/prerm ${P2PW_PACKAGING}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
