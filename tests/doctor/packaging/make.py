"""Writes the tables of this folder: what the library `packaging` answers, with which doctor is compared.

    python3 make.py FOLDER      (needs: pip install packaging)
"""
import itertools, random, sys, packaging
from packaging.version import Version, InvalidVersion
from packaging.specifiers import SpecifierSet, InvalidSpecifier
from packaging.markers import Marker, UndefinedComparison, InvalidMarker
out=sys.argv[1]; random.seed(1)
head=f"# By packaging {packaging.__version__}.\n"
versions="0 0.0 1 1.0 1.0.0 01.0 v1.0 1.0.1 1.0.post1 1.0-1 1.0.post1.dev2 1.0.dev1 1.0a1 1.0.a1 1.0-alpha1 1.0a1.dev3 1.0b2 1.0beta 1.0c1 1.0rc1 1.0.RC.1 1.0preview2 1.0a2.post1 1.0r3 1.0rev 1.0.1rc1 1.1 1.2.3.4.5 1.2 1.10 1.9 2 2.0.dev0 2.0 2.0rc1 2.0.post2 2.0+local 2.0+cu128 2.0+cu129 2.0+1 2.0+01 2.0+2 2.0+10 2.0+1.abc 2.0+abc.1 2.0+cpu.cxx11.abi 1!0.5 1!1.0 0!1.0 2024.1.0 2.9.0+rocm6.4 20240101 1.0.0.0.1".split()
bad=["","x","1..0","1.0.","1.0x","1.0+","1.0+a..b","1!","1.0a1a2","1.0.post1.post2",".1","1.0+a+b","1 0","1.0-","1.0--1","==1.0"]
with open(out+"/versions.tsv","w") as f:
    f.write(head)
    pairs=list(itertools.product(versions,versions)); random.shuffle(pairs)
    for a,b in pairs[:1200]:
        x,y=Version(a),Version(b); f.write(f"{a}\t{b}\t{'<' if x<y else '>' if x>y else '='}\n")
    for b in bad:
        try: Version(b); sys.exit("valid: "+b)
        except InvalidVersion: f.write(f"{b}\t1.0\tinvalid\n")
specs=["","==1.0","==1.0.*","!=1.0","!=1.0.*","!=2.*","==2.*","==1.*","~=1.0","~=1.0.1","~=1.2.3","~=1.0rc1","~=1.0.post1","~=2024.1",">=1.0",">1.0","<1.0","<=1.0",">=1.0rc1",">1.0rc1","<1.0rc1","<=1.0a1","<2","<2.0rc1",">1.0.post1",">=1,<2",">=1.0,!=1.0.1,<2.0","==2.0+cu128","!=2.0+cu128","===2.0+CU128","===1.0",">2.0","<=2.0",">=2.0","==1!1.0",">=1!0","<1!0",">=1.0.dev1","==1.0.0","== 1.0"," >= 1.0 , < 2 ","~=1","==x",">=","=1.0","foo","1.0",">=2.0+cu128","~=1.0.*",">=1.*","<=2.0.post2",">1.0a1","==2.0.post2","!=1.10.*",">=1.2,<1.10",">=0.dev0","<1.0.post1",">1.0.dev1",">1.0a1.dev1",">=1.0.post1","<1.0.post2","<1!1.0"]
with open(out+"/specifiers.tsv","w") as f:
    f.write(head)
    rows=[]
    for v,s in itertools.product(versions,specs):
        try: r="yes" if SpecifierSet(s).contains(Version(v),prereleases=True) else "no"
        except InvalidSpecifier: r="unknown"
        # === compares the texts of versions.
        if "===" in s: r="yes" if s.strip()[3:].lower()==v.lower() else "no"
        rows.append((v,s,r))
    random.shuffle(rows)
    for row in rows[:2400]: f.write("\t".join(row)+"\n")
env={"os_name":"posix","sys_platform":"linux","platform_system":"Linux","platform_machine":"x86_64","python_version":"3.12","python_full_version":"3.12.3","extra":"cuda","implementation_name":"cpython","platform_python_implementation":"CPython"}
markers=["python_version < '3.12'","python_version >= '3.12'","python_version == '3.12'","python_version == '3.*'","python_version != '3.12.*'","python_version > '3.9'","python_version < '3.9'","python_version in '3.11, 3.12'","python_version not in '3.11'","python_full_version >= '3.12.2'","python_full_version < '3.12.4'","python_full_version == '3.12.3'","'3.9' < python_version","'3.9' >= python_version","sys_platform == 'win32'","sys_platform != 'win32'","'linux' in sys_platform","sys_platform in 'linux darwin'","platform_system == \"Linux\"","platform_machine == 'x86_64'","platform_machine == 'aarch64'","platform_python_implementation == 'CPython'","platform_python_implementation != 'PyPy'","implementation_name == 'cpython'","os_name == 'nt'","extra == 'cuda'","extra == 'CUDA'","extra == 'tpu'","platform_system == 'Linux' and platform_machine == 'x86_64'","platform_system == 'Linux' and platform_machine == 'aarch64'","sys_platform == 'win32' or python_version >= '3.8'","(sys_platform == 'win32' or extra == 'cuda') and python_version < '3.13'","sys_platform == 'win32' or sys_platform == 'linux' and python_version < '3.0'","((python_version >= '3'))","python_version ~= '3.11'","platform_system == 'Linux' and (platform_machine == 'x86_64' or platform_machine == 'aarch64') and extra == 'cuda'","os.name == 'posix'","python_implementation == 'CPython'","python_version<'3.13' and(extra=='cuda')"]
with open(out+"/markers.tsv","w") as f:
    f.write(head)
    for m in markers: f.write(f"{m}\t{'yes' if Marker(m).evaluate(env) else 'no'}\n")
